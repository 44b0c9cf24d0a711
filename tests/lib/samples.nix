# Derivations of all kinds that a job can be. Each is there for what its name says.
{ pkgs }:

let
  inherit (pkgs) lib;

  busybox = "${pkgs.busybox-sandbox-shell}/bin/busybox";

  plain =
    name: args:
    derivation (
      {
        inherit name;
        system = "x86_64-linux";
        builder = busybox;
        args = [
          "sh"
          "-c"
          "echo > $out"
        ];
      }
      // args
    );

  leaf = builtins.toFile "leaf" "a source";
  twig = builtins.toFile "twig" "refers to ${leaf}";
in
{
  bank = pkgs.callPackage ../../examples/bank { };

  passAsFile = pkgs.runCommand "pass-as-file" {
    text = "some\ntext with \"quotes\", \\ and ü";
    passAsFile = [ "text" ];
  } "cat $textPath > $out";

  structured = pkgs.stdenvNoCC.mkDerivation {
    name = "structured";
    __structuredAttrs = true;
    list = [
      1
      2.5
      1.0e20
      true
      null
      "words with spaces"
      [ "nested" ]
    ];
    set = {
      b = "${pkgs.jq}";
      a.c = ./samples.nix;
    };
    empty = [ ];
    buildCommand = "echo \"\${list[@]}\" > $out";
  };

  outputs = plain "outputs" {
    outputs = [
      "lib"
      "out"
      "dev"
    ];
    flags = [
      "--lib=${placeholder "lib"}"
      "--out=${placeholder "out"}/share"
    ];
  };

  structuredOutputs = plain "structured-outputs" {
    __structuredAttrs = true;
    outputs = [
      "second"
      "first"
    ];
    prefix = placeholder "first";
  };

  exportReferencesGraph = plain "export-references-graph" {
    exportReferencesGraph = [
      "shell"
      pkgs.bash
      "some-sources"
      twig
    ];
  };

  exportStructured = plain "export-structured" {
    __structuredAttrs = true;
    exportReferencesGraph = {
      closure = [
        pkgs.jq
        pkgs.bash
      ];
      one = "${pkgs.jq}/bin/jq";
    };
  };

  # Paths, which derivationStrict copies to the store.
  sources = plain "sources" {
    src = ./samples.nix;
    more = [
      ./.
      [ ../../examples/bank/bank.c ]
      twig
    ];
    filtered = lib.cleanSource ../../examples;
  };

  coerced = plain "coerced" {
    yes = true;
    no = false;
    nothing = null;
    negative = -3;
    large = 9007199254740993;
    fraction = 0.1;
    nested = [
      [ ]
      [
        [ 1 ]
        [ ]
        2
      ]
      [ ]
      null
      "x"
      [ ]
    ];
    string.__toString = self: "${self.value} as a string";
    string.value = "seven";
    package = [
      pkgs.jq
      { outPath = ./samples.nix; }
    ];
  };

  ignoreNulls = plain "ignore-nulls" {
    __ignoreNulls = true;
    absent = null;
    present = "";
    __structuredAttrs = false;
    __contentAddressed = false;
    __impure = false;
  };

  ignoreNullsStructured = plain "ignore-nulls-structured" {
    __ignoreNulls = true;
    __structuredAttrs = true;
    absent = null;
    inner.kept = null;
  };

  # A store path's hash with something of its own around it, and a string with context only.
  mentions = plain "mentions" {
    base = baseNameOf "${pkgs.jq}";
    suffix = "${pkgs.jq}.so${pkgs.bash}-x";
    invisible = builtins.substring 0 0 "${pkgs.gnumake}";
    several = "${lib.getBin pkgs.openssl} ${lib.getLib pkgs.openssl} ${lib.getDev pkgs.openssl}";
  };

  # A stdenv that is no derivation.
  stdenvSource = plain "stdenv-source" { stdenv = twig; };

  # A stdenv that is no store path.
  stdenvText = plain "stdenv-text" { stdenv = "${pkgs.stdenv}/setup"; };

  # An output of a derivation of which another is the stdenv.
  stdenvOutput =
    let
      pair = plain "pair" {
        outputs = [
          "out"
          "more"
        ];
        args = [
          "sh"
          "-c"
          "echo > $out; echo > $more"
        ];
      };
    in
    plain "stdenv-output" {
      stdenv = pair;
      extra = pair.more;
    };
}
