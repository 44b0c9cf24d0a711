# Items that get lost. The window is the producer's, from its start to the last put(): when it loses its
# turn there for some milliseconds, the consumer finds the queue empty and ends.
{
  lib,
  stdenv,
  python3,
}:

stdenv.mkDerivation {
  pname = "queue";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./drain.py
    ];
  };

  # It runs with it, in its check and when it is installed.
  buildInputs = [ python3 ];

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "A consumer that takes an empty queue for the end";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "queue";
  };
}
