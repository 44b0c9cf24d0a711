# A child that somebody else has waited for. The window is in run(), from fork to waitpid: when the child
# ends in between, the handler of SIGCHLD takes its status, and waitpid finds no child.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "reaper";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./reaper.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A SIGCHLD handler that waits for all children, also others'";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "reaper";
  };
}
