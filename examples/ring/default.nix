# A message that is read before it is written. The window is in send_message(), from the store of `head` to
# that of the message: when the producer loses its turn there, the consumer takes what was in the slot.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "ring";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./ring.c
    ];
  };

  separateDebugInfo = true;

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two processes and a ring in shared memory";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "ring";
  };
}
