# buildPythonPackage and buildPythonApplication: a wheel is built (or given) and installed.
{
  lib,
  final,
  python3,
  sitePackages,
  withDependencies,
}:
let
  inherit (final) stdenv python3Packages;

  build =
    namePrefix: attrsOrFunction:
    let
      package = stdenv.mkDerivation (
        finalAttrs: arguments namePrefix (lib.toFunction attrsOrFunction finalAttrs)
      );
    in
    package;

  arguments =
    namePrefix:
    {
      name ? "${namePrefix}${attrs.pname}-${attrs.version}",
      build-system ? [ ],
      dependencies ? [ ],
      optional-dependencies ? { },
      nativeBuildInputs ? [ ],
      propagatedBuildInputs ? [ ],
      nativeCheckInputs ? [ ],
      checkInputs ? [ ],
      pyproject ? null,
      format ? if pyproject == false then "other" else "pyproject",
      doCheck ? true,
      dontWrapPythonPrograms ? false,
      passthru ? { },
      ...
    }@attrs:
    let
      runtime = dependencies ++ propagatedBuildInputs;
      modules = withDependencies runtime;
      isWheel = format == "wheel";
    in
    removeAttrs attrs [
      "build-system"
      "checkInputs"
      "dependencies"
      "disabled"
      "dontWrapPythonPrograms"
      "format"
      "nativeCheckInputs"
      "optional-dependencies"
      "pyproject"
    ]
    // {
      inherit name;
      strictDeps = attrs.strictDeps or false;
      nativeBuildInputs = [
        python3
        python3Packages.wrapPython
        python3Packages.pythonImportsCheckHook
      ]
      ++ lib.optionals (format != "other") [
        python3Packages.build
        python3Packages.installer
      ]
      ++ lib.optionals (build-system == [ ] && format == "setuptools") [
        python3Packages.setuptools
        python3Packages.wheel
      ]
      ++ build-system
      ++ nativeBuildInputs;
      propagatedBuildInputs = runtime ++ [ python3 ];

      # What was installed is tested, not the source tree.
      doCheck = false;
      doInstallCheck = doCheck;
      nativeInstallCheckInputs = nativeCheckInputs ++ attrs.nativeInstallCheckInputs or [ ];
      installCheckInputs = checkInputs ++ attrs.installCheckInputs or [ ];

      pythonSites = map (module: "${module}/${sitePackages}") modules;
      pythonBins = map (module: "${module}/bin") modules;

      postFixup =
        lib.optionalString (!dontWrapPythonPrograms) "wrapPythonPrograms\n" + attrs.postFixup or "";

      passthru = {
        pythonModule = python3;
        requiredPythonModules = modules;
        inherit dependencies optional-dependencies build-system;
      }
      // passthru;
    }
    // lib.optionalAttrs (format != "other") {
      unpackPhase =
        attrs.unpackPhase or (
          if isWheel then
            ''
              runHook preUnpack
              mkdir -p source/dist
              cp "$src" "source/dist/$(stripHash "$src")"
              sourceRoot=source
              runHook postUnpack
            ''
          else
            null
        );
      configurePhase = attrs.configurePhase or "runHook preConfigure; runHook postConfigure";
      buildPhase =
        attrs.buildPhase or ''
          runHook preBuild
          ${lib.optionalString (!isWheel)
            "python3 -m build --no-isolation --skip-dependency-check --outdir dist/ --wheel ."
          }
          runHook postBuild
        '';
      installPhase =
        attrs.installPhase or ''
          runHook preInstall
          python3 ${./install.py} "$out" "${sitePackages}" "${python3}/bin/python3" dist/*.whl
          export PYTHONPATH="$out/${sitePackages}''${PYTHONPATH:+:$PYTHONPATH}"
          runHook postInstall
        '';
      # (unset, so that a hook among nativeCheckInputs runs the tests)
      installCheckPhase = attrs.installCheckPhase or attrs.checkPhase or null;
      checkPhase = null;
    };
in
{
  buildPythonPackage = build "python${python3.pythonVersion}-";
  buildPythonApplication = build "";
}
