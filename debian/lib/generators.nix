lib:
let
  valueToString = value: if lib.isBool value then lib.boolToString value else toString value;
in
{
  mkValueStringDefault = _: valueToString;
  mkKeyValueDefault =
    {
      mkValueString ? valueToString,
    }:
    separator: key: value:
    "${lib.escape [ separator ] key}${separator}${mkValueString value}";
  toKeyValue =
    {
      mkKeyValue ? lib.generators.mkKeyValueDefault { } "=",
      listsAsDuplicateKeys ? false,
      indent ? "",
    }:
    set:
    lib.concatLines (
      lib.concatLists (
        lib.mapAttrsToList (
          key: value:
          map (v: indent + mkKeyValue key v) (
            if listsAsDuplicateKeys then lib.toList value else [ value ]
          )
        ) set
      )
    );
  toINI =
    {
      mkSectionName ? lib.escape [
        "["
        "]"
      ],
      mkKeyValue ? lib.generators.mkKeyValueDefault { } "=",
      listsAsDuplicateKeys ? false,
    }:
    sections:
    lib.concatStringsSep "\n" (
      lib.mapAttrsToList (
        name: set:
        "[${mkSectionName name}]\n"
        + lib.generators.toKeyValue { inherit mkKeyValue listsAsDuplicateKeys; } set
      ) sections
    );
  toJSON = _: lib.toJSON;
}
