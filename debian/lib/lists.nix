lib:
let
  inherit (lib) elemAt genList length;
in
{
  # The last (first) elements
  last = list: elemAt list (length list - 1);
  init = list: genList (elemAt list) (length list - 1);
  take = n: list: genList (elemAt list) (lib.min n (length list));
  drop = n: list: genList (i: elemAt list (n + i)) (lib.max 0 (length list - n));
  sublist =
    start: count: list:
    lib.take count (lib.drop start list);

  optional = condition: x: if condition then [ x ] else [ ];
  optionals = condition: list: if condition then list else [ ];
  singleton = x: [ x ];
  toList = x: if lib.isList x then x else [ x ];
  flatten = x: if lib.isList x then lib.concatMap lib.flatten x else [ x ];
  range = first: last: if first > last then [ ] else genList (i: first + i) (last - first + 1);
  replicate = n: x: genList (_: x) n;
  reverseList = list: genList (i: elemAt list (length list - 1 - i)) (length list);

  unique = lib.foldl' (seen: x: if lib.elem x seen then seen else seen ++ [ x ]) [ ];
  subtractLists = unwanted: lib.filter (x: !lib.elem x unwanted);
  intersectLists = wanted: lib.filter (x: lib.elem x wanted);
  remove = x: lib.filter (y: y != x);
  compareLists =
    compare: a: b:
    if a == [ ] || b == [ ] then
      length a - length b
    else
      let
        first = compare (lib.head a) (lib.head b);
      in
      if first != 0 then first else lib.compareLists compare (lib.tail a) (lib.tail b);
  sortOn = key: lib.sort (a: b: key a < key b);
  naturalSort = lib.sort (a: b: lib.compareVersions a b < 0);

  forEach = list: f: map f list;
  imap0 = f: list: genList (i: f i (elemAt list i)) (length list);
  imap1 = f: list: genList (i: f (i + 1) (elemAt list i)) (length list);
  foldr =
    f: initial: list:
    lib.foldl' (acc: x: f x acc) initial (lib.reverseList list);
  zipListsWith =
    f: a: b:
    genList (i: f (elemAt a i) (elemAt b i)) (lib.min (length a) (length b));
  zipLists = lib.zipListsWith (fst: snd: { inherit fst snd; });
  count = predicate: list: length (lib.filter predicate list);
  findFirst =
    predicate: default: list:
    let
      found = lib.filter predicate list;
    in
    if found == [ ] then default else lib.head found;
}
