# What is no derivation: functions of `lib`, and attributes of packages. Evaluates to true.
pkgs:
let
  inherit (pkgs) lib;

  # is NAME VALUE EXPECTED
  is =
    name: value: expected:
    lib.throwIf (
      value != expected
    ) "${name} is ${lib.toJSON value} and should be ${lib.toJSON expected}" true;

  source = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      (lib.fileset.fileFilter (file: file.hasExt "c") ./greeting)
      (lib.fileset.difference ./project (lib.fileset.maybeMissing ./project/tests))
      (lib.fileset.maybeMissing ./there-is-no-such-file)
    ];
  };
  sourcePath = builtins.unsafeDiscardStringContext "${source}";
  sourceFiles = map (file: lib.removePrefix "${sourcePath}/" (toString file)) (
    lib.filesystem.listFilesRecursive (/. + sourcePath)
  );

  package = pkgs.stdenv.mkDerivation (finalAttrs: {
    pname = "package";
    version = "1.0";
    passthru.described = "${finalAttrs.pname} ${finalAttrs.version}";
  });
  called = pkgs.callPackage (
    {
      lib,
      word ? "a",
    }:
    { inherit word; }
  ) { };
in
lib.all lib.id [
  (is "lib.fileset" sourceFiles [
    "greeting/greeting.c"
    "project/pyproject.toml"
    "project/src/project/__init__.py"
  ])
  (is "lib.splitString" (lib.splitString "." "a.b..c") [
    "a"
    "b"
    ""
    "c"
  ])
  (is "lib.escapeShellArgs" (lib.escapeShellArgs [
    "a b"
    "c"
    "d'e"
  ]) "'a b' c 'd'\\''e'")
  (is "lib.recursiveUpdate"
    (lib.recursiveUpdate {
      a.b = 1;
      a.c = 2;
    } { a.b = 3; })
    {
      a.b = 3;
      a.c = 2;
    }
  )
  (is "lib.cli.toGNUCommandLineShell" (lib.cli.toGNUCommandLineShell { } {
    X = "PUT";
    data = [
      "a"
      "b"
    ];
    v = true;
    w = false;
  }) "-X PUT --data a --data b -v")
  (is "lib.generators.toINI" (lib.generators.toINI { } { s.k = true; }) "[s]\nk=true\n")
  (is "lib.getExe" (lib.getExe pkgs.hello) "${pkgs.hello}/bin/hello")
  (is "lib.versions.majorMinor" (lib.versions.majorMinor "6.12.3") "6.12")
  (is "lib.getLib" (lib.getLib pkgs.openssl).name "openssl-lib-${pkgs.openssl.version}")
  (is "overrideAttrs" (package.overrideAttrs (old: {
    pname = old.pname + "2";
  })).name "package2-1.0")
  (is "finalAttrs" (package.overrideAttrs { version = "3"; }).described "package 3")
  (is "override" (called.override { word = "b"; }).word "b")
]
