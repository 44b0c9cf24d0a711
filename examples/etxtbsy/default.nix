# ETXTBSY. The window is in install_tool(), from the open of the file that is to be run to its close: a process
# that is forked in between has it open for writing, for as long as it lives.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "etxtbsy";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./etxtbsy.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A thread writes a program and runs it while another one forks";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "etxtbsy";
  };
}
