lib: {
  fix =
    f:
    let
      x = f x;
    in
    x;
  extends =
    overlay: f: final:
    let
      prev = f final;
    in
    prev // overlay final prev;
  composeExtensions =
    f: g: final: prev:
    let
      first = f final prev;
    in
    first // g final (prev // first);
  composeManyExtensions = lib.foldr lib.composeExtensions (_: _: { });
  makeExtensible =
    f:
    lib.fix f
    // {
      extend = overlay: lib.makeExtensible (lib.extends overlay f);
    };
}
