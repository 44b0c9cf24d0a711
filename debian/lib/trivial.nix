lib: {
  id = x: x;
  const = x: _: x;
  flip =
    f: a: b:
    f b a;
  pipe = lib.foldl' (x: f: f x);
  max = x: y: if x > y then x else y;
  min = x: y: if x < y then x else y;
  mod = x: y: x - y * (x / y);
  boolToString = b: if b then "true" else "false";
  isFunction = f: builtins.isFunction f || (f ? __functor && builtins.isFunction (f.__functor f));
  functionArgs =
    f:
    if f ? __functor then
      f.__functionArgs or (lib.functionArgs (f.__functor f))
    else
      builtins.functionArgs f;
  toFunction = v: if lib.isFunction v then v else _: v;
  importJSON = path: lib.fromJSON (lib.readFile path);
  importTOML = path: lib.fromTOML (lib.readFile path);

  # Messages
  warn = message: lib.trace "warning: ${message}";
  warnIf = condition: message: if condition then lib.warn message else x: x;
  throwIf = condition: message: if condition then throw message else x: x;
  throwIfNot = condition: lib.throwIf (!condition);
  assertMsg = condition: message: condition || throw message;
}
