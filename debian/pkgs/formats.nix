# Formats of settings files: a type for options, and a file of a value.
final: prev:
let
  inherit (final) lib runCommandLocal;
in
{
  formats.json =
    { }:
    {
      type =
        let
          valueType =
            lib.types.nullOr (
              lib.types.oneOf [
                lib.types.bool
                lib.types.int
                lib.types.float
                lib.types.str
                lib.types.path
                (lib.types.attrsOf valueType)
                (lib.types.listOf valueType)
              ]
            )
            // {
              description = "JSON value";
            };
        in
        valueType;
      generate =
        name: value:
        runCommandLocal name {
          nativeBuildInputs = [ final.jq ];
          value = lib.toJSON value;
          passAsFile = [ "value" ];
        } "jq . \"$valuePath\" >$out";
    };
}
