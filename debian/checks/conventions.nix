# Do derivations behave as nixpkgs' would? A few are made, each for one convention or two; the
# last one looks at what came of them.
pkgs:
let
  inherit (pkgs) lib stdenv runCommand;

  # Phases, outputs, patches; with attributes as words, and with structured attributes.
  greeting =
    attrs:
    stdenv.mkDerivation (
      {
        pname = "greeting";
        version = "1.0";
        src = ./greeting;
        patches = [ ./greeting.patch ];
        outputs = [
          "out"
          "dev"
          "man"
        ];
        configureFlags = [ "--with-colour=blue" ];
        makeFlags = [ "BIN=${placeholder "out"}" ];
        doCheck = true;
        postInstall = "echo installed >$out/share/post-install";
        meta = {
          mainProgram = "greeting";
          position = "nowhere:1";
        };
      }
      // attrs
    );
  words = greeting { checkFlags = [ "WORDS=hello.patched.world" ]; };
  structured = greeting {
    __structuredAttrs = true;
    # a list's elements may have blanks
    checkFlags = [ "WORDS=hello patched world" ];
    configureFlags = [ "--with-colour=light blue" ];
    env.COLOUR = "green";
    set.name = "value";
    postInstall = ''
      echo "$COLOUR" >$out/share/colour
      bash -c 'echo "''${configureFlags-not exported}"' >$out/share/not-exported
      [ "''${set[name]}" = value ]
    '';
    unsafeDiscardReferences.out = true;
  };
  debuggable = greeting {
    outputs = [ "out" ];
    separateDebugInfo = true;
    checkFlags = [ "WORDS=hello.patched.world" ];
  };

  graph = runCommand "graph" {
    exportReferencesGraph = [
      "graph"
      words
    ];
  } "cp graph $out";
  asFile = runCommand "as-file" {
    long = "text\n";
    passAsFile = [ "long" ];
  } ''cp "$longPath" $out'';

  # nixpkgs does not have it: a flake packages it from a wheel
  pynixutil = pkgs.python3Packages.buildPythonPackage rec {
    pname = "pynixutil";
    version = "0.5.0";
    format = "wheel";
    src = pkgs.fetchPypi {
      inherit pname version format;
      dist = "py3";
      python = "py3";
      hash = "sha256-gbkz4KL5uZUMvrI2iTmS//0fFpZjLlEwz+/+N6c0QhU=";
    };
    pythonImportsCheck = [ "pynixutil" ];
  };
  project = pkgs.python3Packages.buildPythonApplication {
    pname = "project";
    version = "1.0";
    pyproject = true;
    src = ./project;
    build-system = [ pkgs.python3Packages.hatchling ];
    dependencies = [
      pkgs.python3Packages.click
      pkgs.python3Packages.qemu-qmp
      pynixutil
    ];
    nativeCheckInputs = [ pkgs.python3Packages.pytestCheckHook ];
    disabledTests = [ "test_disabled" ];
    pythonImportsCheck = [ "project" ];
    makeWrapperArgs = [
      "--prefix"
      "PATH"
      ":"
      (lib.makeBinPath [ pkgs.jq ])
    ];
    nativeBuildInputs = [ pkgs.installShellFiles ];
    postInstall = ''
      installShellCompletion --cmd project --bash <(echo "complete project")
    '';
    meta.mainProgram = "project";
  };
in
assert import ./values.nix pkgs;
assert import ./modules.nix pkgs;
pkgs.runCommandLocal "debian-conventions"
  {
    inherit
      words
      structured
      graph
      asFile
      project
      ;
    wordsDev = words.dev;
    wordsMan = words.man;
    debuggable = debuggable;
    debug = debuggable.debug;
    structuredClosure = pkgs.writeClosure [ structured ];
    wordsClosure = pkgs.writeClosure [ words ];
    farm = pkgs.linkFarm "farm" { "a/b" = pkgs.jq; };
    json = pkgs.writers.writeJSON "json" { a = 1; };
    nativeBuildInputs = [
      pkgs.gdb
      pkgs.jq
    ];
  }
  ''
    set -x
    # phases
    [ "$($words/bin/greeting)" = "hello patched world" ]
    grep -x -- --with-colour=blue $words/share/options
    grep -x -- --prefix=$words $words/share/options
    grep -x -- --disable-dependency-tracking $words/share/options
    [ -e $words/share/post-install ]
    # outputs
    [ ! -e $words/include ] && [ -e $wordsDev/include/greeting.h ]
    [ ! -e $words/share/man ] && [ -e $wordsMan/share/man/man1/greeting.1.gz ]
    grep -x -- --includedir=$wordsDev/include $words/share/options
    # fix-up
    [ "$(head -n1 $words/bin/script)" = "#!${pkgs.bash}/bin/bash" ]

    # structured attributes
    [ "$($structured/bin/greeting)" = "hello patched world" ]
    grep -x -- "--with-colour=light blue" $structured/share/options
    [ "$(cat $structured/share/colour)" = green ]
    [ "$(cat $structured/share/not-exported)" = "not exported" ]
    # … and unsafeDiscardReferences, which only exist with them
    [ "$(cat $structuredClosure)" = $structured ]
    [ "$(wc -l <$wordsClosure)" -gt 1 ]

    # debug information
    if grep greeting.c $debuggable/bin/greeting; then exit 1; fi
    gdb -batch -iex "set debug-file-directory $debug/lib/debug" -ex "list main" \
      $debuggable/bin/greeting 2>&1 | grep "greeting.c: No such file"
    [ -e $debug/lib/debug/.build-id/*/*.debug ]

    # attributes that Nix itself treats
    grep -x $words $graph
    [ "$(cat $asFile)" = text ]

    # Python
    [ "$($project/bin/project)" = "pynixutil qemu.qmp ${pkgs.jq}/bin/jq" ]
    [ "$(cat $project/share/bash-completion/completions/project.bash)" = "complete project" ]

    # small builders
    $farm/a/b/bin/jq -e '.a == 1' $json
    echo ok >$out
  ''
