# Modules: declarations of options and definitions of their values, from many places, made into
# one configuration.
lib:
let
  inherit (lib)
    all
    attrNames
    concatLists
    concatMap

    filter
    genericClosure
    head
    imap1
    isAttrs
    length
    mapAttrs
    showOption
    zipAttrsWith
    ;

  unknown = "<unknown-file>";

  isType = type: x: isAttrs x && x._type or null == type;

  # The options that every set of modules has.
  internalModule = {
    _file = "lib/modules.nix";
    key = "lib/modules.nix";
    options._module = {
      args = lib.mkOption {
        type = lib.types.lazyAttrsOf lib.types.raw;
        internal = true;
        description = "What modules get as arguments besides `lib`, `config` and `options`.";
      };
      check = lib.mkOption {
        type = lib.types.bool;
        default = true;
        internal = true;
        description = "Whether definitions of options that are not declared are an error.";
      };
      freeformType = lib.mkOption {
        type = lib.types.nullOr lib.types.optionType;
        default = null;
        internal = true;
        description = "The type that definitions of options that are not declared are merged by.";
      };
    };
  };

  # A module, as it is written -> { key, file, class, imports, options, config }
  #
  # `fallback` is how one without a file of its own is called.
  load =
    arguments: fallback: module:
    if lib.isFunction module then
      normal fallback (arguments module)
    else if isAttrs module then
      normal fallback module
    else if lib.isPath module || lib.isString module then
      let
        file = toString module;
      in
      load arguments {
        key = file;
        inherit file;
      } (import module)
    else
      throw "A module is a function, an attribute set or a path, not ${lib.typeOf module}, in ${fallback.file}.";

  structure = [
    "_class"
    "_file"
    "key"
    "imports"
    "options"
    "config"
    "freeformType"
    "meta"
  ];

  normal =
    fallback: module:
    let
      file = toString (module._file or fallback.file);
      key = toString (module.key or fallback.key);
      structured = module ? config || module ? options;
      badKeys = removeAttrs module structure;
      freeform = lib.optional (module ? freeformType) {
        _module.freeformType = module.freeformType;
      };
    in
    if module ? _type then
      {
        inherit file key;
        class = null;
        imports = [ ];
        options = { };
        config = [ module ];
      }
    else if !structured then
      {
        inherit file key;
        class = module._class or null;
        imports = module.imports or [ ];
        options = { };
        config = [
          (removeAttrs module [
            "_class"
            "_file"
            "key"
            "imports"
            "freeformType"
          ])
        ]
        ++ freeform;
      }
    else if badKeys != { } then
      throw "Module `${file}' has an unsupported attribute `${head (attrNames badKeys)}'. This is caused by introducing a top-level `config' or `options' attribute. Add configuration attributes immediately on the top level instead, or move all of them (namely: ${lib.concatStringsSep " " (attrNames badKeys)}) into the explicit `config' attribute."
    else
      {
        inherit file key;
        class = module._class or null;
        imports = module.imports or [ ];
        options = module.options or { };
        config = [ (module.config or { }) ] ++ freeform;
      };

  # All modules that `modules` lead to, each once, those that import before what they import.
  collect =
    arguments: class: modules:
    let
      loadAll =
        parent:
        imap1 (
          number:
          load arguments {
            key = "${parent.key}:anon-${toString number}";
            inherit (parent) file;
          }
        );
      admit =
        module:
        if class != null && module.class != null && module.class != class then
          throw "The module `${module.file}' (class: \"${module.class}\") cannot be imported into a module evaluation that expects class \"${class}\"."
        else
          module;
    in
    map (entry: entry.module) (genericClosure {
      startSet = map (module: {
        inherit (module) key;
        module = admit module;
      }) (
        loadAll {
          key = "";
          file = unknown;
        } modules
      );
      operator =
        entry:
        map (module: {
          inherit (module) key;
          module = admit module;
        }) (loadAll entry.module entry.module.imports);
    });

  # What a configuration says of each attribute: mkIf and mkMerge around an attribute set are taken
  # into it, so that who asks for one attribute does not look at conditions of others.
  pushDown =
    config:
    if isType "merge" config then
      concatMap pushDown config.contents
    else if isType "if" config then
      map (mapAttrs (_: lib.mkIf config.condition)) (pushDown config.content)
    else if isType "override" config then
      map (mapAttrs (_: lib.mkOverride config.priority)) (pushDown config.content)
    else
      [ config ];

  # [{ file, config }] -> { NAME = [{ file, value }]; }
  byName =
    location: configs:
    zipAttrsWith (_: concatLists) (
      concatMap (
        { file, config }:
        map (
          set:
          if isAttrs set then
            mapAttrs (_: value: [ { inherit file value; } ]) set
          else
            throw "In module `${file}', you're trying to define a value of type `${lib.typeOf set}' rather than an attribute set for the option `${showOption location}'!"
        ) (pushDown config)
      ) configs
    );

  # Declarations ([{ file, options }]) and definitions ([{ file, config }]) below `prefix` -> the
  # options with their values, and the definitions that belong to none of them.
  mergeTree =
    prefix: declared: defined:
    let
      declarations = zipAttrsWith (_: concatLists) (
        map (
          { file, options }:
          mapAttrs (_: option: [
            {
              inherit file;
              options = option;
            }
          ]) options
        ) declared
      );
      definitions = byName prefix defined;

      results = mapAttrs (
        name: decls:
        let
          location = prefix ++ [ name ];
          defs = definitions.${name} or [ ];
          leaves = filter (decl: lib.isOption decl.options) decls;
          nested = filter (decl: !lib.isOption decl.options) decls;
          # Options within an option can be those of a submodule.
          asSubmodule = map (decl: {
            inherit (decl) file;
            options = lib.mkOption {
              type = lib.types.submoduleWith {
                modules = [
                  {
                    _file = decl.file;
                    inherit (decl) options;
                  }
                ];
              };
            };
          }) nested;
          takesNested = all (decl: (decl.options.type or null).name or null == "submodule") leaves;
        in
        if leaves == [ ] then
          mergeTree location decls (
            map (def: {
              inherit (def) file;
              config = def.value;
            }) defs
          )
        else if nested != [ ] && !takesNested then
          throw "The option `${showOption location}' in `${(head leaves).file}' is a prefix of options in `${(head nested).file}'."
        else
          {
            options = evalOption location (mergeDeclarations location (leaves ++ asSubmodule)) defs;
            unmatched = [ ];
          }
      ) declarations;

      strange = removeAttrs definitions (attrNames declarations);
    in
    {
      options = mapAttrs (_: result: result.options) results;
      unmatched =
        concatMap (result: result.unmatched) (lib.attrValues results)
        ++ concatMap (
          name:
          map (def: {
            inherit (def) file value;
            location = prefix ++ [ name ];
          }) strange.${name}
        ) (attrNames strange);
    };

  # One option, that several modules may declare: [{ file, options = option }] -> option
  mergeDeclarations =
    location: decls:
    let
      both = lib.intersectLists [
        "default"
        "example"
        "description"
        "apply"
      ];
      merged = lib.foldl' (
        a: decl:
        let
          b = decl.options;
          twice = filter (name: a ? ${name} && b ? ${name}) (both (attrNames b));
          type = a.type.typeMerge b.type.functor;
        in
        if twice != [ ] then
          throw "The option `${showOption location}' in `${decl.file}' is already declared in ${lib.showFiles a.declarations}."
        else if a ? type && b ? type && type == null then
          throw "The option `${showOption location}' in `${decl.file}' is already declared in ${lib.showFiles a.declarations}: their types don't merge."
        else
          a
          // b
          // {
            declarations = a.declarations ++ [ decl.file ];
          }
          // lib.optionalAttrs (a ? type || b ? type) {
            type =
              if a ? type && b ? type then
                type
              else
                a.type or b.type;
          }
      ) { declarations = [ ]; } decls;
    in
    { type = lib.types.unspecified; } // merged;

  # `value` and what else is known of it, of an option and its definitions.
  evalOption =
    location: option: defs:
    let
      defaults = lib.optional (option ? default) {
        file = head option.declarations;
        value = lib.mkOptionDefault option.default;
      };
      merged = lib.mergeDefinitions location option.type (defaults ++ defs);
      value =
        if option.readOnly or false && length merged.all > 1 then
          throw "The option `${showOption location}' is read-only, but it's set multiple times. Definition values:${lib.showDefs merged.all}"
        else
          merged.mergedValue;
    in
    option
    // {
      _type = "option";
      loc = location;
      value = lib.addErrorContext "while evaluating the option `${showOption location}':" (
        (option.apply or lib.id) value
      );
      inherit (merged) isDefined;
      definitions = lib.getValues merged.values;
      definitionsWithLocations = merged.values;
      files = lib.getFiles merged.values;
      highestPrio = merged.priority;
      __toString = _: showOption location;
    };

  # The values of a tree of options.
  values = mapAttrs (_: x: if lib.isOption x then x.value else values x);

  # What is in a definition under mkIf, mkMerge and mkOverride: [{ file, value, priority }]
  discharge =
    { file, value }:
    if isType "merge" value then
      concatMap (content: discharge { inherit file; value = content; }) value.contents
    else if isType "if" value then
      if !lib.isBool value.condition then
        throw "`mkIf` called with a non-Boolean condition in `${file}'"
      else
        lib.optionals value.condition (discharge {
          inherit file;
          value = value.content;
        })
    else if isType "override" value then
      map (def: def // { inherit (value) priority; }) (discharge {
        inherit file;
        value = value.content;
      })
    else if isType "order" value then
      map (def: def // { order = value.priority; }) (discharge {
        inherit file;
        value = value.content;
      })
    else
      [
        {
          inherit file value;
          priority = lib.modules.defaultOverridePriority;
          order = lib.modules.defaultOrderPriority;
        }
      ];
in
{
  defaultOverridePriority = 100;
  defaultOrderPriority = 1000;

  # Makes `config` and `options` of modules.
  evalModules =
    evaluated@{
      modules,
      prefix ? [ ],
      specialArgs ? { },
      class ? null,
    }:
    let
      arguments =
        f:
        let
          always = {
            inherit lib specialArgs;
            inherit (result) config options;
            _class = class;
            _prefix = prefix;
          }
          // specialArgs;
          named = mapAttrs (
            name: _:
            lib.addErrorContext "while evaluating the module argument `${name}':" (
              always.${name} or tree.options._module.args.value.${name}
            )
          ) (lib.functionArgs f);
        in
        f (always // named);

      collected = lib.reverseList (collect arguments class (modules ++ [ internalModule ]));

      tree = mergeTree prefix (map (module: { inherit (module) file options; }) collected) (
        concatMap (
          module:
          map (config: {
            inherit (module) file;
            inherit config;
          }) module.config
        ) collected
      );

      freeformType = tree.options._module.freeformType.value;

      freeform =
        if freeformType == null || tree.unmatched == [ ] then
          { }
        else
          (lib.mergeDefinitions prefix freeformType (
            map (def: {
              inherit (def) file;
              value = lib.setAttrByPath (lib.drop (length prefix) def.location) def.value;
            }) tree.unmatched
          )).mergedValue;

      # Of the others, as a definition that is switched off is one as well.
      checked =
        result:
        if freeformType == null && tree.unmatched != [ ] && tree.options._module.check.value then
          let
            first = head tree.unmatched;
          in
          throw "The option `${showOption first.location}' does not exist. Definition values:${
            lib.showDefs [ first ]
          }"
        else
          result;

      result = {
        _type = "configuration";
        inherit class;
        inherit (tree) options;
        config = checked (
          lib.recursiveUpdateUntil (
            _: a: b:
            !(isAttrs a && isAttrs b) || lib.isDerivation b
          ) freeform (values (removeAttrs tree.options [ "_module" ]))
        );
        _module = checked (values tree.options._module);
        extendModules =
          {
            modules ? [ ],
            specialArgs ? { },
            prefix ? evaluated.prefix or [ ],
          }:
          lib.evalModules (
            evaluated
            // {
              inherit prefix;
              modules = evaluated.modules ++ modules;
              specialArgs = evaluated.specialArgs or { } // specialArgs;
            }
          );
        type = lib.types.submoduleWith { inherit modules specialArgs class; };
      };
    in
    result;

  # One value of definitions ([{ file, value }]) by a type.
  mergeDefinitions = location: type: definitions: rec {
    # of every priority, without what is switched off
    all = concatMap discharge definitions;
    priority = lib.foldl' (a: def: lib.min a def.priority) 9999 all;
    # of the one that counts
    values = lib.sortOn (def: def.order) (filter (def: def.priority == priority) all);

    isDefined = values != [ ];
    mergedValue =
      if !isDefined then
        throw "The option `${showOption location}' was accessed but has no value defined. Try setting the option."
      else
        let
          bad = filter (def: !type.check def.value) values;
        in
        if bad != [ ] then
          throw "A definition for option `${showOption location}' is not of type `${type.description}'. Definition values:${lib.showDefs bad}"
        else
          type.merge location values;
    optionalValue = lib.optionalAttrs isDefined { value = mergedValue; };
  };

  mkIf = condition: content: {
    _type = "if";
    inherit condition content;
  };
  mkMerge = contents: {
    _type = "merge";
    inherit contents;
  };
  mkOverride = priority: content: {
    _type = "override";
    inherit priority content;
  };
  mkOptionDefault = lib.mkOverride 1500;
  mkDefault = lib.mkOverride 1000;
  mkForce = lib.mkOverride 50;
  mkOrder = priority: content: {
    _type = "order";
    inherit priority content;
  };
  mkBefore = lib.mkOrder 500;
  mkAfter = lib.mkOrder 1500;
  mkAssert =
    condition: message:
    lib.mkIf (if condition then true else throw "\nFailed assertion: ${message}");

  # A module that says in errors, and by which it is known for the same one, that it is `file`.
  setDefaultModuleLocation = file: module: {
    _file = file;
    imports = [ module ];
  };
  # The same, of a file that is a function whose result is the module.
  importApply =
    file: argument: lib.setDefaultModuleLocation file (import file argument);
}
