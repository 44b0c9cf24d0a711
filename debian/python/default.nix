# Debian's Python, its modules, and what builds more of them.
#
# A module is a tree of its own with everything it needs from Debian, in
# lib/python3.N/site-packages, as in nixpkgs. withPackages makes a virtual environment of links,
# which Python itself knows how to start from: no wrapper, and nothing is copied.
final: prev:
let
  inherit (final) lib debian runCommandLocal;

  version = lib.versions.majorMinor (debian.upstreamVersion debian.lock.debs.python3.version);
  sitePackages = "lib/python${version}/site-packages";

  # With the modules that a module needs to run.
  withDependencies =
    modules:
    lib.unique (
      lib.concatMap (module: [ module ] ++ module.requiredPythonModules or [ ]) (
        lib.filter (module: module != null) (lib.flatten modules)
      )
    );

  interface = {
    inherit sitePackages withPackages;
    pythonVersion = version;
    libPrefix = "python${version}";
    executable = "python${version}";
    interpreter = "${final.python3}/bin/python${version}";
    implementation = "cpython";
    isPy3 = true;
    pkgs = final.python3Packages;
    pythonAtLeast = lib.versionAtLeast version;
    pythonOlder = lib.versionOlder version;
    buildEnv.override = { extraLibs ? [ ], ... }: withPackages (_: extraLibs);
  };

  python3 = debian.package "python3" {
    passthru = interface;
    setupHook = ''
      addPythonPath() { addToSearchPathWithCustomDelimiter : PYTHONPATH "$1/${sitePackages}"; }
      addEnvHooks "$hostOffset" addPythonPath
      export PYTHONHASHSEED=0 DETERMINISTIC_BUILD=1 PYTHONNOUSERSITE=1
    '';
    post = ''
      python=python${version}
      ln -sfn $python $out/usr/bin/python3
      ln -sfn python3 $out/usr/bin/python
      publish python python3 $python
      $out/usr/bin/$python -B ${./relocate.py} $out
      # -B: what compileall imports would else be compiled on the way, by time; the store changes
      # times, and the first root to run it outside of a sandbox would write into the store.
      $out/usr/bin/$python -B -m compileall -q --invalidation-mode unchecked-hash $out/usr/lib/$python
      $out/usr/bin/$python -B ${./check-pyc.py} $out
      $out/usr/bin/$python -c 'import ctypes, lzma, sqlite3, ssl'
    '';
  };

  # module NAME: from the set py-NAME of debian/packages
  module =
    name: attrs:
    debian.package "py-${name}" (
      {
        name = "python${version}-${name}";
        without = [
          "libc"
          "libc-dev"
          "python3"
        ];
        libraries = [
          debian.libc
          python3
        ];
        interpreters = [ python3 ];
        mainProgram = name;
        post = ''
          modules=$out/usr/${sitePackages}
          mkdir -p ''${modules%/*}
          mv $out/usr/lib/python3/dist-packages $modules
          rmdir $out/usr/lib/python3
          # a program finds its own modules, whatever the environment
          for file in $out/usr/bin/*; do
            [ -f $file ] || continue
            line=
            IFS= read -r line <$file || :
            case $line in
              '#!'*/python3*) sed -i "1a import site; site.addsitedir('$modules')" $file ;;
            esac
          done
          ${python3}/bin/python3 -m compileall -q --invalidation-mode unchecked-hash $modules ||
            echo "some files are for other versions of Python"
        '';
      }
      // attrs
      // {
        passthru = {
          pythonModule = python3;
          requiredPythonModules = [ ];
        }
        // attrs.passthru or { };
      }
    );

  debianModules = lib.mapAttrs' (
    set: _:
    let
      name = lib.removePrefix "py-" set;
    in
    lib.nameValuePair name (module name { })
  ) (lib.filterAttrs (set: _: lib.hasPrefix "py-" set) debian.lock.sets);

  withPackages =
    f:
    let
      modules = withDependencies (f final.python3Packages);
      env = runCommandLocal "python3-${python3.version}-env" {
        inherit modules;
        python = python3;
        meta.mainProgram = "python3";
        passthru = interface // {
          interpreter = "${env}/bin/python${version}";
          inherit env;
        };
      } (builtins.readFile ./environment.sh);
    in
    env;

  builders = import ./build-package.nix {
    inherit
      lib
      final
      python3
      sitePackages
      withDependencies
      ;
  };
in
{
  inherit python3;
  python313 = lib.throwIf (version != "3.13") "python3 is ${version} here" python3;
  python3Minimal = python3;
  python3Packages =
    debianModules
    // builders
    // {
      python = python3;
      callPackage = final.newScope final.python3Packages;
      inherit (final) fetchPypi;
      inherit sitePackages;
      qemu-qmp = builders.buildPythonPackage {
        pname = "qemu-qmp";
        inherit (debian.wheels."qemu.qmp") version src;
        format = "wheel";
        pythonImportsCheck = [ "qemu.qmp" ];
      };
      ruff = final.ruff;
      pytestCheckHook = final.makeSetupHook {
        name = "pytest-check-hook";
        propagatedBuildInputs = [ debianModules.pytest ];
      } ./pytest-check-hook.sh;
      pythonImportsCheckHook = final.makeSetupHook {
        name = "python-imports-check-hook";
      } ./imports-check-hook.sh;
      wrapPython = final.makeSetupHook {
        name = "wrap-python-hook";
        propagatedBuildInputs = [ final.makeWrapper ];
        substitutions = {
          python = python3;
          inherit sitePackages;
        };
      } ./wrap-python.sh;
      toPythonModule = drv: drv;
      toPythonApplication = drv: drv;
      pythonAtLeast = lib.versionAtLeast version;
      pythonOlder = lib.versionOlder version;
    };
  python313Packages = final.python3Packages;

  # The programs are built like modules, and are used by themselves.
  meson = module "meson" {
    name = "meson";
    setupHook = builtins.readFile ../hooks/meson.sh;
  };
  mypy = final.python3Packages.mypy;
}
