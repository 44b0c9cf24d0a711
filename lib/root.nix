# A job with a root directory of its own, that has nothing to do with Nix: a command in it.
#
# It is a derivation in name only. Nix could not build it, and nobody asks it to: it says, as any
# derivation does, what is run, and so all that takes one takes it (docs/roots.md).
{
  lib,
  erofs-utils,
  # the builder of images, python/roots.nix
  roots,
}:

let
  # Of a directory or tarball: its image, as python/rewind/roots makes it.
  rootImage =
    root:
    derivation {
      name = "rewind-root";
      system = "x86_64-linux";
      builder = lib.getExe roots;
      args = [
        "${root}"
        (placeholder "out")
        "${erofs-utils}/bin/mkfs.erofs"
      ];
      # It is content, not something that uses what is named in it.
      __structuredAttrs = true;
      unsafeDiscardReferences.out = true;
    };

  # The file name of a program, as part of a store path's name.
  nameOf =
    program:
    let
      name = lib.concatStrings (
        map (part: if lib.isList part then "-" else part) (
          builtins.split "[^-+._?=0-9a-zA-Z]+" (baseNameOf program)
        )
      );
      bare = lib.removePrefix "." (lib.substring 0 100 name);
    in
    if bare == "" then "command" else bare;

  inRoot =
    {
      root ? null,
      image ? rootImage root,
      command,
      cwd ? "/",
      env ? { },
      name ? nameOf (lib.head command),
    }@given:
    if (root == null) != given ? image then
      throw "rewind: inRoot takes a root (a directory or tarball) or an image"
    else if !(lib.isList command && command != [ ] && lib.all lib.isString command) then
      throw "rewind: command is a list of a program and its arguments, which are strings"
    else if !(lib.isString cwd && lib.hasPrefix "/" cwd) then
      throw "rewind: cwd is an absolute path in the root"
    else if !(lib.isAttrs env && lib.all lib.isString (lib.attrValues env)) then
      throw "rewind: env is an attribute set of strings"
    else
      derivation {
        inherit name;
        system = "x86_64-linux";
        builder = lib.head command;
        args = lib.tail command;
        __structuredAttrs = true;
        rewindRoot = {
          image = "${image}";
          directory = cwd;
          inherit env;
        };
      };
in
{
  inherit inRoot rootImage;
}
