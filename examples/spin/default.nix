# Nothing is wrong with it: it ends in every order, by the kernel's clock alone, some milliseconds a turn.
# Where only a system call can take the CPU from a thread, it never ends.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "spin";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./spin.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two threads that take turns by a flag, in a loop without a system call";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "spin";
  };
}
