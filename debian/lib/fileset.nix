# Sets of files. Here a set is the list of its files, as attributes whose names are absolute
# paths: quite enough for the sources of one project, and union and difference come free.
lib:
let
  fromList =
    paths:
    {
      _type = "fileset";
      files = lib.genAttrs paths (_: true);
    };

  # All files at or below a path; what is no regular file or directory counts as a file.
  filesBelow =
    path: type:
    if type == "directory" then
      lib.concatLists (lib.mapAttrsToList (name: filesBelow (path + "/${name}")) (lib.readDir path))
    else
      [ (toString path) ];

  toSet =
    x:
    if x._type or null == "fileset" then
      x
    else if lib.isPath x then
      if lib.pathExists x then
        fromList (filesBelow x (lib.readFileType x))
      else
        throw "lib.fileset: ${toString x} does not exist; lib.fileset.maybeMissing allows that"
    else if x ? origSrc then
      throw "lib.fileset: a filtered source is no file set"
    else
      throw "lib.fileset: expected a path or a file set, not ${lib.typeOf x}";

  fromFiles = files: {
    _type = "fileset";
    inherit files;
  };
in
{
  union = a: b: fromFiles ((toSet a).files // (toSet b).files);
  unions = sets: fromFiles (lib.mergeAttrsList (map (set: (toSet set).files) sets));
  intersection = a: b: fromFiles (lib.intersectAttrs (toSet a).files (toSet b).files);
  difference = a: b: fromFiles (removeAttrs (toSet a).files (lib.attrNames (toSet b).files));
  maybeMissing = path: if lib.pathExists path then toSet path else fromList [ ];
  toList = set: map (path: /. + path) (lib.attrNames (toSet set).files);

  # Files below a path for which predicate { name, type, hasExt } holds.
  fileFilter =
    predicate: root:
    let
      select =
        path: type:
        if type == "directory" then
          lib.concatLists (lib.mapAttrsToList (name: select (path + "/${name}")) (lib.readDir path))
        else
          let
            name = baseNameOf path;
          in
          lib.optional (predicate {
            inherit name type;
            hasExt = extension: lib.hasSuffix ".${extension}" name;
          }) (toString path);
    in
    fromList (select root (lib.readFileType root));

  # The store path with the files of a set; a directory is there if it holds any.
  toSource =
    { root, fileset }:
    let
      inherit (toSet fileset) files;
      parents =
        path:
        let
          parent = dirOf path;
        in
        lib.optionals (parent != path) ([ parent ] ++ parents parent);
      directories = lib.genAttrs (lib.unique (map dirOf (lib.attrNames files))) (_: true);
      ancestors = lib.genAttrs (lib.concatMap (d: [ d ] ++ parents d) (lib.attrNames directories)) (
        _: true
      );
      outside = lib.filter (file: !lib.hasPrefix (toString root + "/") file) (lib.attrNames files);
      filter = path: type: if type == "directory" then ancestors ? ${path} else files ? ${path};
    in
    if outside != [ ] then
      throw "lib.fileset.toSource: ${lib.head outside} is not below the root ${toString root}"
    else
      {
        _isLibCleanSourceWith = true;
        name = "source";
        origSrc = root;
        inherit filter;
        outPath = builtins.path {
          name = "source";
          path = root;
          inherit filter;
        };
      };
}
