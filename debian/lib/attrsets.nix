lib:
let
  inherit (lib) attrNames isAttrs;
in
{
  nameValuePair = name: value: { inherit name value; };
  genAttrs = names: f: lib.genAttrs' names (name: lib.nameValuePair name (f name));
  genAttrs' = list: f: lib.listToAttrs (map f list);
  getAttrs = names: set: lib.genAttrs names (name: set.${name});
  optionalAttrs = condition: set: if condition then set else { };
  recurseIntoAttrs = set: set // { recurseForDerivations = true; };
  isDerivation = x: isAttrs x && x.type or null == "derivation";

  mapAttrs' = f: set: lib.listToAttrs (lib.mapAttrsToList f set);
  mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
  attrsToList = lib.mapAttrsToList lib.nameValuePair;
  concatMapAttrs = f: set: lib.mergeAttrsList (lib.mapAttrsToList f set);
  filterAttrs =
    predicate: set:
    removeAttrs set (lib.filter (name: !predicate name set.${name}) (attrNames set));
  foldlAttrs =
    f: initial: set:
    lib.foldl' (acc: name: f acc name set.${name}) initial (attrNames set);
  mergeAttrsList = lib.foldl' (a: b: a // b) { };
  zipAttrsWith = builtins.zipAttrsWith;

  attrByPath =
    path: default: set:
    if path == [ ] then
      set
    else if isAttrs set && set ? ${lib.head path} then
      lib.attrByPath (lib.tail path) default set.${lib.head path}
    else
      default;
  hasAttrByPath =
    path: set:
    path == [ ]
    || (
      isAttrs set
      && set ? ${lib.head path}
      && lib.hasAttrByPath (lib.tail path) set.${lib.head path}
    );
  getAttrFromPath =
    path:
    lib.attrByPath path (throw "no attribute ${lib.concatStringsSep "." path}");
  setAttrByPath =
    path: value:
    if path == [ ] then value else { ${lib.head path} = lib.setAttrByPath (lib.tail path) value; };
  recursiveUpdate =
    a: b:
    a
    // lib.mapAttrs (
      name: value:
      if isAttrs value && isAttrs (a.${name} or null) then
        lib.recursiveUpdate a.${name} value
      else
        value
    ) b;
  recursiveUpdateUntil =
    predicate: a: b:
    let
      at =
        path:
        lib.zipAttrsWith (
          name: values:
          let
            here = path ++ [ name ];
          in
          if lib.length values == 1 || predicate here (lib.last values) (lib.head values) then
            lib.head values
          else
            at here values
        );
    in
    at [ ] [
      b
      a
    ];
  # Those in a tree that fit, without looking into them.
  collect =
    predicate: x:
    if predicate x then
      [ x ]
    else if isAttrs x then
      lib.concatMap (lib.collect predicate) (lib.attrValues x)
    else
      [ ];
  cartesianProduct =
    sets:
    lib.foldl' (
      done: name: lib.concatMap (set: map (value: set // { ${name} = value; }) sets.${name}) done
    ) [ { } ] (attrNames sets);
}
