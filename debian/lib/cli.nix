lib: {
  # Options as a list of words: { X = "PUT"; verbose = true; data = [ "a" "b" ]; }
  toGNUCommandLine =
    {
      mkOptionName ? name: if lib.stringLength name == 1 then "-${name}" else "--${name}",
      mkBool ? name: value: lib.optional value (mkOptionName name),
      mkList ? name: lib.concatMap (mkOption name),
      mkOption ?
        name: value:
        if value == null then
          [ ]
        else if optionValueSeparator == null then
          [
            (mkOptionName name)
            (toString value)
          ]
        else
          [ "${mkOptionName name}${optionValueSeparator}${toString value}" ],
      optionValueSeparator ? null,
    }:
    options:
    lib.concatLists (
      lib.mapAttrsToList (
        name: value:
        if lib.isBool value then
          mkBool name value
        else if lib.isList value then
          mkList name value
        else
          mkOption name value
      ) options
    );
  toGNUCommandLineShell =
    settings: options: lib.escapeShellArgs (lib.cli.toGNUCommandLine settings options);
}
