# Records a run again and again in one build, each time under other circumstances, and fails
# unless every file of every recording is the same to the byte.
#
#   check { name = "bank"; run = rewind.run { drv = bank; }; }
{
  lib,
  bash,
  coreutils,
  diffutils,
  jq,
  runCommandCC,
  recorder,
}:

let
  # Puts the host's clock somewhere else for a process and its children.
  shift = runCommandCC "shift-clock" { } ''
    mkdir -p $out/lib
    $CC -shared -fPIC -O2 -Wall -Werror -o $out/lib/shift-clock.so ${./shift-clock.c} -ldl
  '';
in
{ name, run }:

derivation (
  removeAttrs run.drvAttrs [
    "outputs"
    "unsafeDiscardReferences"
  ]
  // {
    name = "determinism-${name}";
    builder = "${bash}/bin/bash";
    args = [
      "-eu"
      ./record-again.sh
    ];
    recorder = "${recorder}/bin/rewind-recorder";
    clock = "${shift}/lib/shift-clock.so";
    path = lib.makeBinPath [
      coreutils
      diffutils
      jq
    ];
  }
)
