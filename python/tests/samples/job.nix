# Derivations that show what Nix gives a builder. job-*.json say, of each, the job that
# lib/job.nix makes of it, the closures it asks for, and what it found when Nix 2.26 built it.
#
#   nix build --impure --file job.nix plain
{
  pkgs ? import <nixpkgs> { },
}:

let
  # The environment of the shell itself, not of a child's.
  keep = ''
    PATH=${pkgs.coreutils}/bin
    mkdir "$out"
    cp /proc/$$/environ "$out/environ"
    cp -r /build "$out/build"
    printf '%s\0' "$@" > "$out/args"
  '';
in
rec {
  leaf = builtins.toFile "a-leaf" "x";
  middle = builtins.toFile "b-middle" "y ${leaf}";
  top = builtins.toFile "c-top" "hello ${leaf} ${middle}";

  plain = derivation {
    name = "plain";
    system = "x86_64-linux";
    builder = "/bin/sh";
    args = [
      "-c"
      (keep + "mkdir $dev")
      "sh"
      (builtins.placeholder "out")
    ];
    outputs = [
      "out"
      "dev"
    ];

    exportReferencesGraph = [
      "graph1"
      top
      "graph-2.x"
      leaf
    ];

    passAsFile = [
      "large"
      "second"
    ];
    large = "some text, é, ${builtins.placeholder "dev"}\n";
    second = "2";
    # Both get in the way of a variable that says where a file is.
    aPath = "clash";
    largePath = "clash";

    lines = "a'b\nc";
    list = [
      1
      2
      true
      "x y"
    ];
    yes = true;
    nothing = null;
    fraction = 1.5;
    ours = builtins.placeholder "out";
    nobodys = builtins.placeholder "none";

    # Of these, some are replaced, and some replace.
    TERM = "other";
    PATH = "/other";
    HOME = "/other";
    TMPDIR = "/other";
    NIX_BUILD_CORES = "77";
    NIX_LOG_FD = "9";
  };

  structured = derivation {
    name = "structured";
    system = "x86_64-linux";
    builder = "/bin/sh";
    args = [
      "-c"
      (". /build/.attrs.sh; out=\${outputs[out]}\n" + keep)
    ];
    __structuredAttrs = true;

    exportReferencesGraph = {
      first = [
        top
        middle
      ];
      second = leaf;
    };

    "weird name" = 1;
    "k\"é" = 1;
    object = {
      b = 1;
      "c d" = "x'y";
      n = null;
      t = true;
      f = false;
    };
    list = [
      1
      "x"
      null
      true
      false
      2.0
    ];
    nested = [ [ 1 ] ];
    deep.x.y = 1;
    mixed = {
      a = 1;
      b = [ 1 ];
    };
    emptyList = [ ];
    emptyObject = { };
    int31 = 2147483648;
    int40 = 1099511627776;
    negative = -5;
    half = 1.5;
    minusHalf = -0.5;
    minusTwo = -2.0;
    single = 16777216.5;
    huge = 1.0e30;
    beyondSingle = 3.0e39;
    quadrillion = 1.0e15;
    quadrillions = 1234567890123456.0;
    ten = 1.0e16;
    below = 123456789012345.0;
    small = 1.0e-4;
    smaller = 1.0e-5;
    tenth = 0.1;
    string = "q\"\\\n\t\r${builtins.fromJSON "\"\\u0001\\b\\f\\u007f\\u00e9\\u2028\\ud83d\\ude00\""}";
    nothing = null;
    yes = true;
    no = false;
    passAsFile = [ "string" ];
    ours = builtins.placeholder "out";
    TERM = "other";
  };
}
