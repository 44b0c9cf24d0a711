# Filtered sources. A value is an attribute set with `outPath`, and remembers the unfiltered
# directory, so that filters can be stacked.
lib: {
  cleanSourceFilter =
    path: type:
    let
      name = baseNameOf path;
    in
    !(
      (
        type == "directory"
        && lib.elem name [
          ".git"
          ".svn"
          "CVS"
          ".hg"
          ".jj"
        ]
      )
      || lib.hasSuffix "~" name
      || lib.match "\\.sw[a-z]|\\..*\\.sw[a-z]" name != null
      || lib.hasSuffix ".o" name
      || lib.hasSuffix ".so" name
      || (type == "symlink" && lib.hasPrefix "result" name)
      || type == "unknown"
    );
  cleanSourceWith =
    {
      src,
      filter ? _: _: true,
      name ? src.name or "source",
    }:
    let
      origSrc = src.origSrc or src;
      combined = path: type: filter path type && (src.filter or (_: _: true)) path type;
    in
    {
      _isLibCleanSourceWith = true;
      inherit origSrc name;
      filter = combined;
      outPath = builtins.path {
        inherit name;
        path = origSrc;
        filter = combined;
      };
    };
  cleanSource =
    src:
    lib.cleanSourceWith {
      inherit src;
      filter = lib.cleanSourceFilter;
    };
  sourceByRegex =
    src: regexes:
    lib.cleanSourceWith {
      inherit src;
      filter =
        path: _:
        let
          relative = lib.removePrefix (toString (src.origSrc or src) + "/") (toString path);
        in
        lib.any (regex: lib.match regex relative != null) regexes;
    };
  sourceFilesBySuffices =
    src: suffixes:
    lib.cleanSourceWith {
      inherit src;
      filter =
        path: type: type == "directory" || lib.any (suffix: lib.hasSuffix suffix path) suffixes;
    };
}
