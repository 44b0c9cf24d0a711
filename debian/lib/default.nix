# The part of nixpkgs' `lib` that small projects use, under the same names.
#
# A file a subject, as in nixpkgs; each is also there as `lib.SUBJECT`.
let
  merged =
    subjects.trivial
    // subjects.lists
    // subjects.attrsets
    // subjects.strings
    // subjects.fixedPoints
    // subjects.customisation
    // subjects.meta
    // subjects.sources
    // subjects.options
    // subjects.modules
    // subjects;

  # What the files below get.
  lib = builtins // merged;

  subjects = {
    trivial = import ./trivial.nix lib;
    lists = import ./lists.nix lib;
    attrsets = import ./attrsets.nix lib;
    strings = import ./strings.nix lib;
    versions = import ./versions.nix lib;
    fixedPoints = import ./fixed-points.nix lib;
    customisation = import ./customisation.nix lib;
    meta = import ./meta.nix lib;
    sources = import ./sources.nix lib;
    fileset = import ./fileset.nix lib;
    filesystem = import ./filesystem.nix lib;
    generators = import ./generators.nix lib;
    cli = import ./cli.nix lib;
    options = import ./options.nix lib;
    modules = import ./modules.nix lib;
    types = import ./types.nix lib;
    licenses = import ./licenses.nix lib;
    maintainers = { };

    # This set is for one platform.
    platforms = lib.genAttrs [
      "all"
      "linux"
      "unix"
      "x86_64"
    ] (_: [ "x86_64-linux" ]);
    systems = {
      flakeExposed = [ "x86_64-linux" ];
      doubles.linux = [ "x86_64-linux" ];
    };
    sourceTypes = lib.genAttrs [
      "fromSource"
      "binaryNativeCode"
      "binaryBytecode"
    ] (shortName: { inherit shortName; });
  };
in
merged
# nixpkgs' lib has these builtins and no others.
// lib.getAttrs [
  "add"
  "addErrorContext"
  "all"
  "any"
  "attrNames"
  "attrValues"
  "baseNameOf"
  "bitAnd"
  "bitOr"
  "bitXor"
  "catAttrs"
  "compareVersions"
  "concatLists"
  "concatMap"
  "concatStringsSep"
  "deepSeq"
  "dirOf"
  "elem"
  "elemAt"
  "filter"
  "foldl'"
  "fromJSON"
  "fromTOML"
  "genList"
  "genericClosure"
  "getAttr"
  "groupBy"
  "hasAttr"
  "head"
  "intersectAttrs"
  "isAttrs"
  "isBool"
  "isFloat"
  "isInt"
  "isList"
  "isPath"
  "isString"
  "length"
  "lessThan"
  "listToAttrs"
  "map"
  "mapAttrs"
  "match"
  "partition"
  "pathExists"
  "readFile"
  "removeAttrs"
  "replaceStrings"
  "seq"
  "sort"
  "splitVersion"
  "stringLength"
  "sub"
  "substring"
  "tail"
  "toJSON"
  "trace"
  "typeOf"
  "unsafeDiscardStringContext"
  "unsafeGetAttrPos"
  "zipAttrsWith"
] builtins
