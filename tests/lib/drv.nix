# Reads a .drv: path -> the arguments of runFromDrv. Only for tests: the command line does this
# with pynixutil, and pure evaluation may not.
path:

let
  inherit (builtins)
    elemAt
    foldl'
    fromJSON
    genList
    isList
    listToAttrs
    match
    readFile
    replaceStrings
    split
    ;

  # Derive([("out","/nix/store/…","",""),…],…): JSON but for its parentheses, which are brackets
  # there, outside of strings. An escaped quote does not end a string.
  parse =
    path:
    let
      step =
        state: part:
        if isList part then
          state
        else
          {
            text =
              state.text
              + (if state.text == "" then "" else "\"")
              + (
                if state.inString then
                  part
                else
                  replaceStrings
                    [
                      "Derive("
                      "("
                      ")"
                    ]
                    [
                      "["
                      "["
                      "]"
                    ]
                    part
              );
            # A backslash that is itself escaped escapes nothing.
            inString = !state.inString || match "(.*[^\\])?(\\\\\\\\)*\\\\" part != null;
          };
      result = foldl' step {
        text = "";
        inString = false;
      } (split "\"" (readFile path));
    in
    fromJSON result.text;

  pairs = map (pair: {
    name = elemAt pair 0;
    value = elemAt pair 1;
  });

  outputs = drv: listToAttrs (pairs (elemAt drv 0));

  drv = parse path;
in
{
  drv = path;
  outputs = outputs drv;
  inputDrvs = listToAttrs (
    map (
      input:
      let
        made = outputs (parse (elemAt input 0));
      in
      {
        name = elemAt input 0;
        value = listToAttrs (
          map (name: {
            inherit name;
            value = made.${name};
          }) (elemAt input 1)
        );
      }
    ) (elemAt drv 1)
  );
  inputSrcs = elemAt drv 2;
  builder = elemAt drv 4;
  args = elemAt drv 5;
  env = listToAttrs (pairs (elemAt drv 6));
}
