# mkDerivation ATTRS, or mkDerivation (finalAttrs: ATTRS), as in nixpkgs.
#
# The derivation has the environment variables that nixpkgs gives one, so that whoever looks
# at a build's environment sees the same names with either set.
{
  lib,
  pkgs,
  stdenv,
}:
let
  # Dependency lists, and the offsets of build and host platform they stand for.
  dependencyLists = [
    "depsBuildBuild"
    "depsBuildBuildPropagated"
    "nativeBuildInputs"
    "propagatedNativeBuildInputs"
    "depsBuildTarget"
    "depsBuildTargetPropagated"
    "depsHostHost"
    "depsHostHostPropagated"
    "buildInputs"
    "propagatedBuildInputs"
    "depsTargetTarget"
    "depsTargetTargetPropagated"
  ];

  # What is only for Nix expressions, or becomes something else in the derivation.
  notForBuilder = [
    "checkInputs"
    "env"
    "finalPackage"
    "hardeningDisable"
    "hardeningEnable"
    "installCheckInputs"
    "meta"
    "nativeCheckInputs"
    "nativeInstallCheckInputs"
    "passthru"
    "pos"
  ];

  developmentOutputs =
    list: map lib.getDev (lib.filter (x: x != null && x != false) (lib.flatten list));

  derivationArguments =
    attrs:
    let
      doCheck = attrs.doCheck or false;
      doInstallCheck = attrs.doInstallCheck or false;
      structured = attrs.__structuredAttrs or false;
      separateDebugInfo = attrs.separateDebugInfo or false;
      outputs = attrs.outputs or [ "out" ];

      checkDependencies = {
        nativeBuildInputs =
          lib.optionals doCheck (attrs.nativeCheckInputs or [ ])
          ++ lib.optionals doInstallCheck (attrs.nativeInstallCheckInputs or [ ])
          ++ lib.optional separateDebugInfo pkgs.separateDebugInfoHook;
        buildInputs =
          lib.optionals doCheck (attrs.checkInputs or [ ])
          ++ lib.optionals doInstallCheck (attrs.installCheckInputs or [ ]);
      };
      dependencies = lib.genAttrs dependencyLists (
        list: developmentOutputs ((attrs.${list} or [ ]) ++ (checkDependencies.${list} or [ ]))
      );

      env = lib.mapAttrs (
        name: value:
        if lib.isBool value then
          lib.optionalString value "1"
        else if lib.isString value || lib.isInt value || lib.isDerivation value then
          value
        else
          throw (
            "mkDerivation: env.${name} is a ${lib.typeOf value};"
            + " it can be a string, a derivation, a boolean or an integer"
          )
      ) (attrs.env or { });
      clashing = lib.filter (name: attrs ? ${name}) (lib.attrNames env);
    in
    lib.throwIf (clashing != [ ])
      "mkDerivation: ${lib.concatStringsSep ", " clashing}: given both in env and as an attribute"
      (
        removeAttrs attrs notForBuilder
        // dependencies
        // (if structured then { inherit env; } else env)
        // {
          name = attrs.name or "${attrs.pname}-${attrs.version}";
          system = stdenv.hostPlatform.system;
          builder = attrs.realBuilder or stdenv.shell;
          args =
            attrs.args or [
              "-e"
              ./source-stdenv.sh
              (attrs.builder or ./default-builder.sh)
            ];
          stdenv = stdenv.outPath;
          outputs =
            outputs ++ lib.optional (separateDebugInfo && !lib.elem "debug" outputs) "debug";
          __structuredAttrs = structured;
          __ignoreNulls = true;
          inherit doCheck doInstallCheck;
          strictDeps = attrs.strictDeps or false;
          patches = attrs.patches or [ ];
          configureFlags = attrs.configureFlags or [ ];
          cmakeFlags = attrs.cmakeFlags or [ ];
          mesonFlags = attrs.mesonFlags or [ ];
        }
        // lib.optionalAttrs (attrs.enableParallelBuilding or false) {
          enableParallelChecking = attrs.enableParallelChecking or true;
          enableParallelInstalling = attrs.enableParallelInstalling or true;
        }
      );

  # The package: the caller's attributes, `passthru`, one attribute an output.
  realise =
    attrs:
    let
      drvAttrs = derivationArguments attrs;
      drv = derivation drvAttrs;
      inherit (drvAttrs) outputs name;
      common =
        attrs
        // attrs.passthru or { }
        // {
          type = "derivation";
          inherit
            name
            outputs
            drvAttrs
            stdenv
            ;
          inherit (drvAttrs) system;
          passthru = attrs.passthru or { };
          meta = {
            name = name;
            outputsToInstall = [ (lib.head outputs) ];
          }
          // attrs.meta or { };
        };
      output =
        outputName:
        common
        // byOutput
        // {
          inherit (drv) drvPath;
          inherit (drv.${outputName}) outPath;
          inherit outputName;
          outputSpecified = true;
        };
      byOutput = lib.genAttrs outputs output // {
        all = map output outputs;
      };
    in
    # (with the first output chosen, but as no particular one)
    removeAttrs (output (lib.head outputs)) [ "outputSpecified" ];

  # The fixed point over finalAttrs, with overrideAttrs.
  fromFunction =
    f:
    let
      attrs = f (attrs // { finalPackage = package; });
      package = realise attrs // {
        overrideAttrs =
          change:
          fromFunction (
            final:
            let
              previous = f final;
              once = change previous;
            in
            previous
            // (
              if !lib.isFunction change then
                change
              else if lib.isFunction once then
                change final previous
              else
                once
            )
          );
        override = _: throw "${package.name}: there is no override here; use overrideAttrs";
      };
    in
    package;
in
attrsOrFunction: fromFunction (lib.toFunction attrsOrFunction)
