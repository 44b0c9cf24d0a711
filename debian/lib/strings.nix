lib:
let
  inherit (lib)
    concatStringsSep
    match
    replaceStrings
    stringLength
    substring
    ;
  upper = lib.stringToCharacters "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  lower = lib.stringToCharacters "abcdefghijklmnopqrstuvwxyz";
in
{
  concatStrings = concatStringsSep "";
  concatMapStrings = f: list: lib.concatStrings (map f list);
  concatMapStringsSep =
    separator: f: list:
    concatStringsSep separator (map f list);
  concatImapStringsSep =
    separator: f: list:
    concatStringsSep separator (lib.imap1 f list);
  concatMapAttrsStringSep =
    separator: f: set:
    concatStringsSep separator (lib.mapAttrsToList f set);
  concatLines = lib.concatMapStrings (line: line + "\n");
  intersperse =
    separator: list:
    lib.tail (
      lib.concatMap (x: [
        separator
        x
      ]) list
    );
  join = concatStringsSep;
  optionalString = condition: string: if condition then string else "";
  stringToCharacters = string: lib.genList (i: substring i 1 string) (stringLength string);
  splitString =
    separator: string: lib.filter lib.isString (lib.split (lib.escapeRegex separator) string);

  hasPrefix = prefix: string: substring 0 (stringLength prefix) string == prefix;
  hasSuffix =
    suffix: string:
    let
      start = stringLength string - stringLength suffix;
    in
    start >= 0 && substring start (-1) string == suffix;
  hasInfix = infix: string: lib.length (lib.split (lib.escapeRegex infix) string) > 1;
  removePrefix =
    prefix: string:
    if lib.hasPrefix prefix string then substring (stringLength prefix) (-1) string else string;
  removeSuffix =
    suffix: string:
    if lib.hasSuffix suffix string then
      substring 0 (stringLength string - stringLength suffix) string
    else
      string;
  trim =
    string:
    let
      inner = match "[[:space:]]*(.*[^[:space:]])[[:space:]]*" string;
    in
    if inner == null then "" else lib.head inner;
  toLower = replaceStrings upper lower;
  toUpper = replaceStrings lower upper;
  fixedWidthString =
    width: filler: string:
    if stringLength string >= width then
      string
    else
      lib.fixedWidthString width filler (filler + string);
  fixedWidthNumber = width: number: lib.fixedWidthString width "0" (toString number);
  toInt =
    string:
    let
      number = lib.fromJSON (lib.head (match "[[:space:]]*0*(-?[0-9]+)[[:space:]]*" string));
    in
    number;
  fileContents = file: lib.removeSuffix "\n" (lib.readFile file);

  escape = characters: replaceStrings characters (map (c: "\\" + c) characters);
  escapeRegex = lib.escape (lib.stringToCharacters "\\[{()^$?*+|.");
  escapeShellArg =
    argument:
    let
      string = toString argument;
    in
    if match "[[:alnum:],._+:@%/-]+" string != null then
      string
    else
      "'${replaceStrings [ "'" ] [ "'\\''" ] string}'";
  escapeShellArgs = lib.concatMapStringsSep " " lib.escapeShellArg;
  escapeNixString = string: lib.escape [ "$" ] (lib.toJSON string);
  toShellVar =
    name: value:
    if lib.isAttrs value && !lib.isDerivation value then
      "declare -A ${name}=(${
        lib.concatMapAttrsStringSep " " (
          key: element: "[${lib.escapeShellArg key}]=${lib.escapeShellArg element}"
        ) value
      })"
    else if lib.isList value then
      "declare -a ${name}=(${lib.escapeShellArgs value})"
    else
      "${name}=${lib.escapeShellArg value}";
  toShellVars = lib.concatMapAttrsStringSep "\n" lib.toShellVar;
  sanitizeDerivationName =
    string:
    lib.concatStrings (
      map (part: if lib.isList part then "-" else part) (lib.split "[^[:alnum:]+._?=-]+" string)
    );

  versionAtLeast = a: b: lib.compareVersions a b >= 0;
  versionOlder = a: b: lib.compareVersions a b < 0;
  makeSearchPath =
    directory: packages: lib.concatMapStringsSep ":" (package: "${package}/${directory}") packages;
  makeSearchPathOutput =
    output: directory: packages:
    lib.makeSearchPath directory (map (lib.getOutput output) packages);
  makeBinPath = lib.makeSearchPathOutput "bin" "bin";
  makeLibraryPath = lib.makeSearchPathOutput "lib" "lib";
  isStorePath = x: lib.isStringLike x && lib.dirOf (toString x) == builtins.storeDir;
  isStringLike = x: lib.isString x || lib.isPath x || x ? outPath || x ? __toString;
  fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  fakeSha256 = lib.fixedWidthString 64 "0" "";
}
