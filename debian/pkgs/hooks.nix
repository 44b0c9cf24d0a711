# Setup hooks: text that stdenv sources when the package is among the inputs.
final: prev:
let
  inherit (final) lib makeSetupHook runCommandLocal;
in
{
  makeSetupHook =
    {
      name ? "hook",
      propagatedBuildInputs ? [ ],
      propagatedNativeBuildInputs ? [ ],
      substitutions ? { },
      passthru ? { },
      meta ? { },
      ...
    }:
    script:
    runCommandLocal name
      (
        substitutions
        // {
          inherit
            propagatedBuildInputs
            propagatedNativeBuildInputs
            passthru
            meta
            ;
        }
      )
      ''
        mkdir -p $out/nix-support
        cp ${script} $out/nix-support/setup-hook
        substituteInPlace $out/nix-support/setup-hook ${
          lib.concatStringsSep " " (
            map (name: "--subst-var-by ${name} ${lib.escapeShellArg "${substitutions.${name}}"}") (
              lib.attrNames substitutions
            )
          )
        }
        _recordPropagated
      '';

  makeWrapper = makeSetupHook { name = "make-wrapper-hook"; } ../hooks/make-wrapper.sh;
  makeShellWrapper = final.makeWrapper;
  makeBinaryWrapper = final.makeWrapper;
  installShellFiles = makeSetupHook {
    name = "install-shell-files";
  } ../hooks/install-shell-files.sh;
  separateDebugInfoHook = makeSetupHook {
    name = "separate-debug-info-hook";
  } ../hooks/separate-debug-info.sh;

  removeReferencesTo = final.writeShellScriptBin "remove-references-to" (
    builtins.readFile ../hooks/remove-references-to.sh
  );
}
