# Types of options.
#
# A type is an attribute set: `check`, whether a value can be one of its; `merge`, what several
# definitions come to; `description`, for people; `functor`, by which two declarations of an option
# become one; `getSubOptions`, the options in it.
lib:
let
  inherit (lib)
    all
    concatMapStringsSep
    concatStringsSep
    elem
    filter
    head
    imap1
    isAttrs
    isInt
    isList
    isString
    length
    mapAttrs
    mkOptionType
    zipAttrsWith
    ;
  types = lib.types;

  # "list of (X or Y)": a description stands in parentheses unless it is of one of `classes`.
  phrase =
    classes: type:
    if elem type.descriptionClass classes then type.description else "(${type.description})";
  nested = phrase [
    "noun"
    "composite"
  ];
  alternative = phrase [
    "noun"
    "conjunction"
  ];

  # A type of strings, or of other values that have to be equal.
  plain =
    name: description: check:
    mkOptionType {
      inherit name description check;
      descriptionClass = "noun";
      merge = lib.mergeEqualOption;
    };

  # Whole numbers within bounds.
  integers =
    let
      between =
        lowest: highest:
        if lowest > highest then
          throw "ints.between: lowest must be smaller than highest"
        else
          types.addCheck types.int (x: x >= lowest && x <= highest)
          // {
            name = "intBetween";
            description = "integer between ${toString lowest} and ${toString highest} (both inclusive)";
          };
      sized =
        name: what: lowest: highest:
        between lowest highest
        // {
          inherit name;
          description = "${what}; between ${toString lowest} and ${toString highest} (both inclusive)";
        };
      unsigned =
        bits: highest: sized "unsignedInt${bits}" "${bits} bit unsigned integer" 0 highest;
      signed =
        bits: highest:
        sized "signedInt${bits}" "${bits} bit signed integer" (-highest - 1) highest;
    in
    {
      inherit between;
      unsigned = types.addCheck types.int (x: x >= 0) // {
        name = "unsignedInt";
        description = "unsigned integer, meaning >=0";
        descriptionClass = "nonRestrictiveClause";
      };
      positive = types.addCheck types.int (x: x > 0) // {
        name = "positiveInt";
        description = "positive integer, meaning >0";
        descriptionClass = "nonRestrictiveClause";
      };
      u8 = unsigned "8" 255;
      u16 = unsigned "16" 65535;
      u32 = unsigned "32" 4294967295;
      s8 = signed "8" 127;
      s16 = signed "16" 32767;
      s32 = signed "32" 2147483647;
    };

  # Attribute sets with values of one type.
  attributesOf =
    name: description: merge: elemType:
    mkOptionType {
      inherit name;
      description = "${description} of ${nested elemType}";
      descriptionClass = "composite";
      check = isAttrs;
      merge =
        location: definitions:
        merge (
          zipAttrsWith (key: lib.mergeDefinitions (location ++ [ key ]) elemType) (
            map (definition: mapAttrs (_: value: { inherit (definition) file; inherit value; }) definition.value) definitions
          )
        );
      emptyValue.value = { };
      getSubOptions = prefix: elemType.getSubOptions (prefix ++ [ "<name>" ]);
      inherit (elemType) getSubModules;
      substSubModules = modules: attributesOf name description merge (elemType.substSubModules modules);
      functor = wraps name (attributesOf name description merge) elemType;
      nestedTypes = { inherit elemType; };
    };

  # The functor of a type around another: they merge if those in them do.
  wraps = name: type: elemType: {
    inherit name type;
    payload = { inherit elemType; };
    wrapped = elemType;
    binOp =
      a: b:
      let
        merged = a.elemType.typeMerge b.elemType.functor;
      in
      if merged == null then null else { elemType = merged; };
    make = payload: type payload.elemType;
  };

  # A store path as the derivation it would be of.
  toDerivation =
    path:
    let
      storePath = builtins.storePath path;
      result = {
        type = "derivation";
        name = lib.sanitizeDerivationName (builtins.substring 33 (-1) (baseNameOf storePath));
        outPath = storePath;
        outputs = [ "out" ];
        out = result;
        outputName = "out";
      };
    in
    result;
in
{
  inherit mkOptionType;
  isOptionType = lib.isType "option-type";

  raw = mkOptionType {
    name = "raw";
    description = "raw value";
    descriptionClass = "noun";
    merge = lib.mergeOneOption;
  };
  unspecified = mkOptionType {
    name = "unspecified";
    description = "unspecified value";
    descriptionClass = "noun";
    merge =
      location: definitions:
      if length definitions > 1 && all (definition: isAttrs definition.value) definitions then
        lib.mergeAttrsList (lib.getValues definitions)
      else if length definitions > 1 && all (definition: isList definition.value) definitions then
        lib.concatLists (lib.getValues definitions)
      else
        lib.mergeEqualOption location definitions;
  };
  anything = mkOptionType {
    name = "anything";
    description = "anything";
    descriptionClass = "noun";
    merge =
      location: definitions:
      let
        values = lib.getValues definitions;
      in
      if length values > 1 && all (value: isAttrs value && !lib.isDerivation value) values then
        (types.lazyAttrsOf types.anything).merge location definitions
      else
        lib.mergeEqualOption location definitions;
  };
  optionType = mkOptionType {
    name = "optionType";
    description = "optionType";
    descriptionClass = "noun";
    check = types.isOptionType;
    merge = lib.mergeOneOption;
  };

  bool = plain "bool" "boolean" lib.isBool;
  int = plain "int" "signed integer" isInt;
  ints = integers;
  float = plain "float" "floating point number" lib.isFloat;
  number = types.either types.int types.float;
  numbers.positive =
    types.addCheck types.number (x: x > 0)
    // {
      name = "numberPositive";
      description = "positive integer or floating point number, meaning >0";
      descriptionClass = "nonRestrictiveClause";
    };
  port = types.ints.u16;

  str = plain "str" "string" isString;
  nonEmptyStr = types.addCheck types.str (x: lib.match "[ \t\n]*" x == null) // {
    name = "nonEmptyStr";
    description = "non-empty string";
  };
  singleLineStr = types.addCheck types.str (x: lib.match "[^\n\r]*\n?" x != null) // {
    name = "singleLineStr";
    description = "(optionally newline-terminated) single-line string";
    merge = location: definitions: lib.removeSuffix "\n" (lib.mergeEqualOption location definitions);
  };
  strMatching =
    pattern:
    types.addCheck types.str (x: lib.match pattern x != null)
    // {
      name = "strMatching ${lib.escapeNixString pattern}";
      description = "string matching the pattern ${pattern}";
    };
  separatedString =
    separator:
    mkOptionType rec {
      name = "separatedString";
      description =
        if separator == "" then "Concatenated string" else "strings concatenated with ${lib.toJSON separator}";
      descriptionClass = "noun";
      check = isString;
      merge = _: definitions: concatStringsSep separator (lib.getValues definitions);
      functor = {
        inherit name;
        type = types.separatedString;
        payload = { inherit separator; };
        binOp = a: b: if a == b then a else null;
        make = payload: types.separatedString payload.separator;
      };
    };
  lines = types.separatedString "\n";
  commas = types.separatedString ",";
  envVar = types.separatedString ":";

  path = mkOptionType {
    name = "path";
    description = "absolute path";
    descriptionClass = "noun";
    check = x: lib.isStringLike x && builtins.substring 0 1 (toString x) == "/";
    merge = lib.mergeEqualOption;
  };
  package = mkOptionType {
    name = "package";
    description = "package";
    descriptionClass = "noun";
    check = x: lib.isDerivation x || lib.isStorePath x;
    merge =
      location: definitions:
      let
        result = lib.mergeOneOption location definitions;
      in
      if lib.isDerivation result then result else toDerivation result;
  };

  attrs = mkOptionType {
    name = "attrs";
    description = "attribute set";
    check = isAttrs;
    merge = _: definitions: lib.foldl' (a: definition: a // definition.value) { } definitions;
    emptyValue.value = { };
  };
  # Which names there are depends on the values: one that is switched off is not there.
  attrsOf = attributesOf "attrsOf" "attribute set" (
    merged: mapAttrs (_: one: one.mergedValue) (lib.filterAttrs (_: one: one.isDefined) merged)
  );
  # All names are there, and a value that is switched off is an error when it is used.
  lazyAttrsOf = attributesOf "lazyAttrsOf" "lazy attribute set" (mapAttrs (_: one: one.mergedValue));
  listOf =
    elemType:
    mkOptionType rec {
      name = "listOf";
      description = "list of ${nested elemType}";
      descriptionClass = "composite";
      check = isList;
      merge =
        location: definitions:
        map (one: one.mergedValue) (
          filter (one: one.isDefined) (
            lib.concatLists (
              imap1 (
                n: definition:
                imap1 (
                  m: value:
                  lib.mergeDefinitions
                    (location ++ [ "[definition ${toString n}-entry ${toString m}]" ])
                    elemType
                    [
                      {
                        inherit (definition) file;
                        inherit value;
                      }
                    ]
                ) definition.value
              ) definitions
            )
          )
        );
      emptyValue.value = [ ];
      getSubOptions = prefix: elemType.getSubOptions (prefix ++ [ "*" ]);
      inherit (elemType) getSubModules;
      substSubModules = modules: types.listOf (elemType.substSubModules modules);
      functor = wraps name types.listOf elemType;
      nestedTypes = { inherit elemType; };
    };
  nonEmptyListOf =
    elemType:
    let
      list = types.addCheck (types.listOf elemType) (x: x != [ ]);
    in
    list
    // {
      description = "non-empty ${list.description}";
      emptyValue = { };
    };

  nullOr =
    elemType:
    mkOptionType rec {
      name = "nullOr";
      description = "null or ${alternative elemType}";
      descriptionClass = "conjunction";
      check = x: x == null || elemType.check x;
      merge =
        location: definitions:
        let
          nulls = lib.count (definition: definition.value == null) definitions;
        in
        if nulls == length definitions then
          null
        else if nulls != 0 then
          throw "The option `${lib.showOption location}` is defined both null and not null, in ${lib.showFiles (lib.getFiles definitions)}."
        else
          elemType.merge location definitions;
      emptyValue.value = null;
      inherit (elemType) getSubOptions getSubModules;
      substSubModules = modules: types.nullOr (elemType.substSubModules modules);
      functor = wraps name types.nullOr elemType;
      nestedTypes = { inherit elemType; };
    };
  enum =
    values:
    let
      show = value: if isString value || isInt value then lib.toJSON value else lib.boolToString value;
    in
    mkOptionType rec {
      name = "enum";
      description =
        if values == [ ] then
          "impossible (empty enum)"
        else if length values == 1 then
          "value ${show (head values)} (singular enum)"
        else
          "one of ${concatMapStringsSep ", " show values}";
      descriptionClass = if length values < 2 then "noun" else "conjunction";
      check = x: elem x values;
      merge = lib.mergeEqualOption;
      functor = {
        inherit name;
        type = types.enum;
        payload = { inherit values; };
        binOp = a: b: { values = lib.unique (a.values ++ b.values); };
        make = payload: types.enum payload.values;
      };
    };
  either =
    a: b:
    mkOptionType rec {
      name = "either";
      description = "${alternative a} or ${
        phrase [
          "noun"
          "conjunction"
          "composite"
        ] b
      }";
      descriptionClass = "conjunction";
      check = x: a.check x || b.check x;
      merge =
        location: definitions:
        let
          values = lib.getValues definitions;
        in
        if all a.check values then
          a.merge location definitions
        else if all b.check values then
          b.merge location definitions
        else
          lib.mergeOneOption location definitions;
      functor = {
        inherit name;
        type = types.either;
        payload = { inherit a b; };
        binOp =
          x: y:
          let
            left = x.a.typeMerge y.a.functor;
            right = x.b.typeMerge y.b.functor;
          in
          if left == null || right == null then
            null
          else
            {
              a = left;
              b = right;
            };
        make = payload: types.either payload.a payload.b;
      };
      nestedTypes = {
        left = a;
        right = b;
      };
    };
  oneOf =
    alternatives:
    if alternatives == [ ] then
      throw "types.oneOf needs to get at least one type in its argument"
    else
      lib.foldl' types.either (head alternatives) (lib.tail alternatives);
  coercedTo =
    from: convert: to:
    mkOptionType {
      name = "coercedTo";
      description = "${alternative to} or ${nested from} convertible to it";
      descriptionClass = "conjunction";
      check = x: (from.check x && to.check (convert x)) || to.check x;
      merge =
        location: definitions:
        to.merge location (
          map (
            definition:
            definition
            // {
              value = if from.check definition.value then convert definition.value else definition.value;
            }
          ) definitions
        );
      inherit (to) emptyValue getSubOptions getSubModules;
      substSubModules = modules: types.coercedTo from convert (to.substSubModules modules);
      typeMerge = _: null;
    };
  functionTo =
    elemType:
    mkOptionType rec {
      name = "functionTo";
      description = "function that evaluates to a(n) ${nested elemType}";
      descriptionClass = "composite";
      check = lib.isFunction;
      merge =
        location: definitions: argument:
        (lib.mergeDefinitions (location ++ [ "<function body>" ]) elemType (
          map (definition: definition // { value = definition.value argument; }) definitions
        )).mergedValue;
      getSubOptions = prefix: elemType.getSubOptions (prefix ++ [ "<function body>" ]);
      inherit (elemType) getSubModules;
      substSubModules = modules: types.functionTo (elemType.substSubModules modules);
      functor = wraps name types.functionTo elemType;
      nestedTypes = { inherit elemType; };
    };
  uniq = types.unique { message = ""; };
  unique =
    { message }:
    type:
    type
    // {
      name = "unique";
      merge =
        location: definitions:
        type.merge location [
          {
            file = head (lib.getFiles definitions);
            value = lib.mergeUniqueOption { inherit message; } location definitions;
          }
        ];
    };
  addCheck =
    type: check: type // { check = x: type.check x && check x; };

  submodule =
    modules:
    types.submoduleWith {
      shorthandOnlyDefinesConfig = true;
      modules = lib.toList modules;
    };
  submoduleWith =
    arguments@{
      modules,
      specialArgs ? { },
      shorthandOnlyDefinesConfig ? false,
      description ? null,
      class ? null,
    }:
    let
      # What is defined is a module as well: in short, only values.
      asModule =
        { file, value }:
        if isAttrs value && shorthandOnlyDefinesConfig then
          {
            _file = file;
            config = value;
          }
        else
          {
            _file = file;
            imports = [ value ];
          };
      eval =
        location: name: more:
        lib.evalModules {
          inherit specialArgs class;
          prefix = location;
          modules = [ { _module.args.name = lib.mkOptionDefault name; } ] ++ modules ++ more;
        };
      free = eval [ ] "‹name›" [ ];
    in
    mkOptionType rec {
      name = "submodule";
      description = if description != null then description else "submodule";
      descriptionClass = "noun";
      check = x: isAttrs x || lib.isFunction x || types.path.check x;
      merge =
        location: definitions:
        (eval location (lib.last location) (
          map (definition: asModule { inherit (definition) file value; }) definitions
        )).config;
      emptyValue.value = { };
      getSubOptions = prefix: (eval prefix "‹name›" [ ]).options;
      getSubModules = modules;
      substSubModules = modules: types.submoduleWith (arguments // { inherit modules; });
      functor = {
        inherit name;
        type = types.submoduleWith;
        payload = {
          inherit
            modules
            specialArgs
            shorthandOnlyDefinesConfig
            description
            class
            ;
        };
        binOp =
          a: b:
          a
          // {
            modules = a.modules ++ b.modules;
            specialArgs = a.specialArgs // b.specialArgs;
            shorthandOnlyDefinesConfig = a.shorthandOnlyDefinesConfig && b.shorthandOnlyDefinesConfig;
          };
        make = types.submoduleWith;
      };
      nestedTypes = lib.optionalAttrs (free._module.freeformType or null != null) {
        inherit (free._module) freeformType;
      };
    };

  # A module that somebody evaluates later, with others.
  deferredModule = types.deferredModuleWith { };
  deferredModuleWith =
    {
      staticModules ? [ ],
    }:
    mkOptionType rec {
      name = "deferredModule";
      description = "module";
      descriptionClass = "noun";
      check = x: isAttrs x || lib.isFunction x || types.path.check x;
      merge = location: definitions: {
        imports =
          staticModules
          ++ map (
            definition:
            lib.setDefaultModuleLocation "${toString definition.file}, via option ${lib.showOption location}" definition.value
          ) definitions;
      };
      getSubOptions = prefix: (types.submoduleWith { modules = staticModules; }).getSubOptions prefix;
      getSubModules = staticModules;
      substSubModules = modules: types.deferredModuleWith { staticModules = modules; };
      functor = {
        inherit name;
        type = types.deferredModuleWith;
        payload = { inherit staticModules; };
        binOp = a: b: { staticModules = a.staticModules ++ b.staticModules; };
        make = types.deferredModuleWith;
      };
    };
}
