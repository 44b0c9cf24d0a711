# Derivations made of a few lines: runCommand, writeText, symlinkJoin, …
final: prev:
let
  inherit (final)
    lib
    stdenv
    stdenvNoCC
    runCommand
    runCommandLocal
    runtimeShell
    ;

  pythonWith =
    libraries:
    if libraries == [ ] then final.python3 else final.python3.withPackages (_: libraries);
in
{
  ###### Commands

  runCommandWith =
    {
      name,
      stdenv ? stdenvNoCC,
      runLocal ? false,
      derivationArgs ? { },
    }:
    buildCommand:
    stdenv.mkDerivation (
      {
        enableParallelBuilding = true;
        inherit name buildCommand;
      }
      // lib.optionalAttrs (!derivationArgs.__structuredAttrs or false) {
        passAsFile = [ "buildCommand" ] ++ derivationArgs.passAsFile or [ ];
      }
      // lib.optionalAttrs runLocal {
        preferLocalBuild = true;
        allowSubstitutes = false;
      }
      // removeAttrs derivationArgs [ "passAsFile" ]
    );
  runCommand = name: derivationArgs: final.runCommandWith { inherit name derivationArgs; };
  runCommandLocal =
    name: derivationArgs:
    final.runCommandWith {
      inherit name derivationArgs;
      runLocal = true;
    };
  runCommandCC =
    name: derivationArgs:
    final.runCommandWith {
      inherit name derivationArgs;
      inherit (final) stdenv;
    };

  ###### Files

  writeTextFile =
    {
      name,
      text,
      executable ? false,
      destination ? "",
      checkPhase ? "",
      meta ? { },
      passthru ? { },
      derivationArgs ? { },
      ...
    }:
    runCommandLocal name
      (
        {
          inherit
            text
            executable
            checkPhase
            destination
            passthru
            ;
          passAsFile = [ "text" ];
          meta =
            lib.optionalAttrs (executable && lib.hasPrefix "/bin/" destination) {
              mainProgram = lib.removePrefix "/bin/" destination;
            }
            // meta;
        }
        // derivationArgs
      )
      ''
        target=$out$destination
        mkdir -p "$(dirname "$target")"
        if [ -e "$textPath" ]; then mv "$textPath" "$target"; else echo -n "$text" >"$target"; fi
        if [ -n "$executable" ]; then chmod +x "$target"; fi
        eval "$checkPhase"
      '';
  writeText = name: text: final.writeTextFile { inherit name text; };
  writeTextDir =
    path: text:
    final.writeTextFile {
      name = baseNameOf path;
      inherit text;
      destination = "/${path}";
    };
  writeScript =
    name: text:
    final.writeTextFile {
      inherit name text;
      executable = true;
    };
  writeScriptBin =
    name: text:
    final.writeTextFile {
      inherit name text;
      executable = true;
      destination = "/bin/${name}";
    };
  writeShellScript = name: text: final.writeScript name "#!${runtimeShell}\n${text}\n";
  writeShellScriptBin = name: text: final.writeScriptBin name "#!${runtimeShell}\n${text}\n";
  writeShellApplication =
    {
      name,
      text,
      runtimeInputs ? [ ],
      runtimeEnv ? { },
      meta ? { },
      passthru ? { },
      checkPhase ? null,
      excludeShellChecks ? [ ],
      extraShellCheckFlags ? [ ],
      bashOptions ? [
        "errexit"
        "nounset"
        "pipefail"
      ],
      inheritPath ? true,
      derivationArgs ? { },
    }:
    final.writeTextFile {
      inherit name passthru derivationArgs;
      meta = {
        mainProgram = name;
      }
      // meta;
      executable = true;
      destination = "/bin/${name}";
      text =
        "#!${runtimeShell}\n"
        + lib.concatMapStrings (option: "set -o ${option}\n") bashOptions
        + lib.concatStrings (
          lib.mapAttrsToList (
            variable: value: "${lib.toShellVar variable value}\nexport ${variable}\n"
          ) runtimeEnv
        )
        + lib.optionalString (runtimeInputs != [ ]) (
          let
            path = lib.makeBinPath runtimeInputs + lib.optionalString inheritPath ":$PATH";
          in
          "\nexport PATH=\"${path}\"\n"
        )
        + "\n${text}\n";
      checkPhase =
        if checkPhase != null then
          checkPhase
        else
          ''
            bash -n -O extglob "$target"
            ${lib.getExe final.shellcheck} ${
              lib.escapeShellArgs (
                lib.optionals (excludeShellChecks != [ ]) [
                  "--exclude"
                  (lib.concatStringsSep "," excludeShellChecks)
                ]
                ++ extraShellCheckFlags
              )
            } "$target"
          '';
    };
  writers = {
    writeBash = final.writeShellScript;
    writeBashBin = final.writeShellScriptBin;
    writeText = final.writeText;
    writeJSON = name: value: final.writeText name (lib.toJSON value);
    writePython3 =
      name:
      {
        libraries ? [ ],
        ...
      }:
      text:
      final.writeScript name (
        "#!${pythonWith libraries}/bin/python3\n${text}"
      );
    writePython3Bin =
      name:
      {
        libraries ? [ ],
        ...
      }:
      text:
      final.writeScriptBin name (
        "#!${pythonWith libraries}/bin/python3\n${text}"
      );
  };
  emptyFile = runCommandLocal "empty-file" { } "touch $out";
  emptyDirectory = runCommandLocal "empty-directory" { } "mkdir $out";
  concatTextFile =
    { name, files, ... }: runCommandLocal name { inherit files; } "cat $files >$out";
  concatText = name: files: final.concatTextFile { inherit name files; };

  ###### Trees of links

  symlinkJoin =
    {
      name ? "${pname}-${version}",
      pname ? "",
      version ? "",
      paths,
      stripPrefix ? "",
      preferLocalBuild ? true,
      allowSubstitutes ? false,
      postBuild ? "",
      failOnMissing ? stripPrefix == "",
      ...
    }@args:
    runCommand name
      (
        removeAttrs args [
          "name"
          "postBuild"
          "stripPrefix"
          "paths"
          "failOnMissing"
        ]
        // {
          inherit preferLocalBuild allowSubstitutes;
          paths = map (path: "${path}${stripPrefix}") paths;
          passAsFile = [ "paths" ];
        }
      )
      ''
        ${builtins.readFile ../hooks/link-tree.sh}
        mkdir -p $out
        for path in $(cat $pathsPath); do
          if [ -d $path ]; then
            linkTree $path $out
          ${lib.optionalString failOnMissing ''
            else
              echo "symlinkJoin: $path is no directory" >&2
              exit 1
          ''}
          fi
        done
        ${postBuild}
      '';
  buildEnv =
    {
      name,
      paths,
      postBuild ? "",
      pathsToLink ? [ "/" ],
      meta ? { },
      passthru ? { },
      ...
    }:
    runCommandLocal name { inherit meta passthru; } ''
      ${builtins.readFile ../hooks/link-tree.sh}
      mkdir -p $out
      for path in ${lib.concatStringsSep " " paths}; do
        for part in ${lib.escapeShellArgs pathsToLink}; do
          [ ! -d $path$part ] || { mkdir -p $out$part; linkTree $path$part $out$part; }
        done
      done
      ${postBuild}
    '';
  linkFarm =
    name: entries:
    let
      list =
        if lib.isList entries then
          entries
        else
          lib.mapAttrsToList (name: path: { inherit name path; }) entries;
    in
    runCommandLocal name { passthru.entries = entries; } (
      "mkdir -p $out\ncd $out\n"
      + lib.concatMapStrings (entry: ''
        mkdir -p "$(dirname ${lib.escapeShellArg entry.name})"
        ln -s ${lib.escapeShellArg "${entry.path}"} ${lib.escapeShellArg entry.name}
      '') list
    );
  linkFarmFromDrvs =
    name: drvs:
    final.linkFarm name (
      map (drv: {
        inherit (drv) name;
        path = drv;
      }) drvs
    );

  ###### Closures

  closureInfo =
    { rootPaths }:
    stdenvNoCC.mkDerivation {
      name = "closure-info";
      __structuredAttrs = true;
      exportReferencesGraph.closure = lib.toList rootPaths;
      preferLocalBuild = true;
      nativeBuildInputs = [ final.jq ];
      empty = rootPaths == [ ];
      buildCommand = ''
        mkdir $out
        cd $out
        if [ -n "$empty" ]; then
          echo 0 >total-nar-size
          touch registration store-paths
        else
          graph=$NIX_ATTRS_JSON_FILE
          jq -r '[.closure[].narSize] | add' $graph >total-nar-size
          jq -r '.closure | sort_by(.path)[] |
            .path, .narHash, .narSize, "", (.references | length), .references[]' $graph >registration
          jq -r '.closure | sort_by(.path)[].path' $graph >store-paths
        fi
      '';
    };
  writeClosure =
    paths:
    runCommandLocal "runtime-deps"
      {
        __structuredAttrs = true;
        exportReferencesGraph.graph = lib.toList paths;
        nativeBuildInputs = [ final.jq ];
      }
      ''
        jq -r '.graph[].path' $NIX_ATTRS_JSON_FILE | sort >$out
      '';
  writeDirectReferencesToFile =
    path:
    runCommandLocal "runtime-references"
      {
        exportReferencesGraph = [
          "graph"
          path
        ];
        inherit path;
      }
      ''
        while read -r entry; do
          read -r deriver
          read -r count
          for ((i = 0; i < count; i++)); do
            read -r reference
            if [ "$entry" = "$path" ]; then echo "$reference"; fi
          done
        done <graph | sort >$out
      '';

  ###### Shells

  mkShell =
    {
      name ? "nix-shell",
      packages ? [ ],
      inputsFrom ? [ ],
      buildInputs ? [ ],
      nativeBuildInputs ? [ ],
      propagatedBuildInputs ? [ ],
      propagatedNativeBuildInputs ? [ ],
      stdenv ? final.stdenv,
      ...
    }@args:
    let
      merge =
        list: own:
        own
        ++ lib.subtractLists inputsFrom (
          lib.concatMap (package: package.drvAttrs.${list} or [ ]) inputsFrom
        );
    in
    stdenv.mkDerivation (
      {
        inherit name;
        buildInputs = merge "buildInputs" buildInputs;
        nativeBuildInputs = packages ++ merge "nativeBuildInputs" nativeBuildInputs;
        propagatedBuildInputs = merge "propagatedBuildInputs" propagatedBuildInputs;
        propagatedNativeBuildInputs = merge "propagatedNativeBuildInputs" propagatedNativeBuildInputs;
        phases = [ "buildPhase" ];
        buildPhase = ''
          export >>"$out"
        '';
        preferLocalBuild = true;
      }
      // removeAttrs args [
        "name"
        "packages"
        "inputsFrom"
        "buildInputs"
        "nativeBuildInputs"
        "propagatedBuildInputs"
        "propagatedNativeBuildInputs"
        "stdenv"
      ]
    );
  mkShellNoCC = args: final.mkShell ({ stdenv = stdenvNoCC; } // args);
}
