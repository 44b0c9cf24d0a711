# Modules: what comes of definitions, and which are refused. Evaluates to true.
#
# The sentences of errors cannot be looked at from within Nix, only whether there is one.
pkgs:
let
  inherit (pkgs) lib;
  inherit (lib)
    mkDefault
    mkForce
    mkIf
    mkMerge
    mkOption
    types
    ;

  is =
    name: value: expected:
    lib.throwIf (value != expected)
      "${name} is ${lib.toJSON value} and should be ${lib.toJSON expected}"
      true;

  # What an option of a type becomes of some definitions.
  merged =
    type: values:
    (lib.evalModules {
      modules = [
        { options.x = mkOption { inherit type; }; }
      ]
      ++ map (x: { inherit x; }) values;
    }).config.x;

  refused =
    name: value:
    lib.throwIf (builtins.tryEval (builtins.deepSeq value null)).success "${name} is accepted" true;

  config = modules: (lib.evalModules { inherit modules; }).config;

  service =
    { name, config, ... }:
    {
      options = {
        name = mkOption {
          type = types.str;
          default = name;
        };
        port = mkOption { type = types.port; };
        url = mkOption {
          type = types.str;
          readOnly = true;
        };
      };
      config.url = "http://${config.name}:${toString config.port}";
    };

  # Imported twice, and there once.
  shared = {
    key = "shared";
    options.list = mkOption {
      type = types.listOf types.str;
      apply = map lib.toUpper;
      default = [ ];
    };
  };
  machine = config [
    shared
    (
      { config, word, ... }:
      {
        imports = [ shared ];
        options = {
          enable = lib.mkEnableOption "it";
          services = mkOption {
            type = types.attrsOf (types.submodule service);
            default = { };
          };
          extra.level = mkOption {
            type = types.enum [
              1
              2
            ];
            default = 1;
          };
        };
        config = mkMerge [
          { list = [ word ]; }
          (mkIf config.enable {
            list = lib.mkBefore [ "first" ];
            services.b.port = mkDefault 1;
            services.c = mkIf false { };
            extra.level = mkForce 2;
          })
          (mkIf (!config.enable) { list = throw "nobody looks at this"; })
        ];
      }
    )
    {
      enable = true;
      _module.args.word = "word";
      services.a = {
        port = 80;
        name = "host";
      };
      services.b.port = 2;
      extra.level = 1;
    }
  ];

  # A part of an option's type from one module, another part from another.
  deferred =
    module: mkOption { type = types.deferredModuleWith { staticModules = [ module ]; }; };
  evaluated = config [
    { options.per = deferred { options.a = mkOption { default = 1; }; }; }
    {
      options.per = deferred (
        { system, ... }:
        {
          options.b = mkOption { type = types.str; };
          config.b = system;
        }
      );
      config.per.a = 3;
    }
  ];

  freeform = config [
    {
      freeformType = types.attrsOf types.int;
      options.known = mkOption { type = types.str; };
    }
    {
      known = "k";
      other = 2;
    }
  ];

  option = mkOption { type = types.int; };
in
lib.all lib.id [
  (is "an evaluated configuration" machine {
    enable = true;
    list = [
      "FIRST"
      "WORD"
    ];
    services = {
      a = {
        name = "host";
        port = 80;
        url = "http://host:80";
      };
      b = {
        name = "b";
        port = 2;
        url = "http://b:2";
      };
    };
    extra.level = 2;
  })
  (is "a deferred module"
    (lib.evalModules {
      modules = [ evaluated.per ];
      specialArgs.system = "here";
    }).config
    {
      a = 3;
      b = "here";
    }
  )
  (is "a free form" freeform {
    known = "k";
    other = 2;
  })
  (is "nullOr" (merged (types.nullOr types.int) [ null ]) null)
  (is "lines" (merged types.lines [
    "b"
    "a"
  ]) "a\nb")
  (is "either" (merged (types.either types.int types.str) [ "a" ]) "a")
  (is "coercedTo" (merged (types.coercedTo types.int toString types.str) [ 3 ]) "3")
  (is "package" (merged types.package [ pkgs.hello ]).name pkgs.hello.name)
  (is "mkPackageOption" (lib.mkPackageOption pkgs "hello" { }).default.name pkgs.hello.name)
  (is "a description" (types.listOf (types.nullOr types.ints.positive)).description
    "list of (null or (positive integer, meaning >0))"
  )
  (is "optionAttrSetToDocList"
    (map (one: one.name) (
      lib.filter (one: !one.internal) (
        lib.optionAttrSetToDocList
          (lib.evalModules {
            modules = [ { options.s = mkOption { type = types.attrsOf (types.submodule service); }; } ];
          }).options
      )
    ))
    [
      "s"
      "s.<name>.name"
      "s.<name>.port"
      "s.<name>.url"
    ]
  )
  (refused "a value of another type" (merged types.int [ "1" ]))
  (refused "two values of one" (
    merged types.int [
      1
      2
    ]
  ))
  (refused "an option without a value" (merged types.int [ ]))
  (refused "an element of another type" (merged (types.listOf types.bool) [ [ 1 ] ]))
  (refused "what is not in an enum" (merged (types.enum [ "a" ]) [ "b" ]))
  (refused "a number out of bounds" (merged (types.ints.between 1 3) [ 4 ]))
  (refused "a relative path" (merged types.path [ "a/b" ]))
  (refused "a string for a package" (merged types.package [ "hello" ]))
  (refused "an option that is not there" (config [ { y = 1; } ]))
  (refused "one that is not there, switched off" (config [ { y = mkIf false 1; } ]))
  (refused "a read-only option, set" (
    config [
      {
        options.x = option // {
          readOnly = true;
          default = 1;
        };
        config.x = 2;
      }
    ]
  ))
  (refused "an option below an option" (
    config [
      { options.x = option; }
      { options.x.y = option; }
      {
        x = 1;
      }
    ]
  ))
  (refused "an option declared twice" (
    config [
      { options.x = mkOption { type = types.int; }; }
      { options.x = mkOption { type = types.str; }; }
      { x = 1; }
    ]
  ))
  (refused "a module of another class" (
    (lib.evalModules {
      class = "nixos";
      modules = [ { _class = "flake"; } ];
    }).config
  ))
]
