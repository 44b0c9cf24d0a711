# Fetchers that fetch nothing: what they name has to be in the store. The path is the one that
# nixpkgs' fetchers give a file of that name and hash, so that an expression finds here what
# nixw has put there (debian/pypi.txt), or what was added by `nix-store --add-fixed`.
final: prev:
let
  inherit (final) lib debian fetchurl;
in
{
  fetchurl =
    {
      url ? lib.head urls,
      urls ? [ url ],
      name ? baseNameOf (toString url),
      hash ? "",
      sha256 ? "",
      sha512 ? "",
      executable ? false,
      passthru ? { },
      meta ? { },
      ...
    }:
    let
      algorithm =
        if hash != "" then
          null
        else if sha256 != "" then
          "sha256"
        else
          "sha512";
    in
    debian.dress { passthru = { inherit url urls; } // passthru; inherit meta; } (derivation {
      inherit name;
      system = "x86_64-linux";
      builder = "${debian.sandboxShell}/bin/busybox";
      args = [
        "sh"
        "-c"
        ''
          echo "$name is not in the store, and nothing is downloaded with this package set." >&2
          echo "Get it from $url, then: nix-store --add-fixed sha256 $name" >&2
          exit 1
        ''
      ];
      inherit url;
      outputHash =
        if hash != "" then
          hash
        else if sha256 != "" then
          sha256
        else
          sha512;
      outputHashAlgo = algorithm;
      outputHashMode = if executable then "recursive" else "flat";
      preferLocalBuild = true;
    });

  fetchPypi = lib.makeOverridable (
    {
      pname,
      version,
      format ? "setuptools",
      extension ? "tar.gz",
      dist ? python,
      python ? "py2.py3",
      abi ? "none",
      platform ? "any",
      hash ? "",
      sha256 ? "",
      ...
    }:
    fetchurl {
      inherit hash sha256;
      url =
        "mirror://pypi/${lib.substring 0 1 pname}/${pname}/"
        + (
          if format == "wheel" then
            "${pname}-${version}-${python}-${abi}-${platform}.whl"
          else
            "${pname}-${version}.${extension}"
        );
    }
  );

  fetchpatch = fetchurl;
  fetchzip = { url, ... }: throw "fetchzip: ${url}: this package set cannot fetch";
  fetchgit = { url, ... }: throw "fetchgit: ${url}: this package set cannot fetch";
  fetchFromGitHub =
    { owner, repo, ... }: throw "fetchFromGitHub: ${owner}/${repo}: this package set cannot fetch";
}
