# Two processes that write one file. The window is the first job's, from its start to its last write: when the
# second one's line is there before the file is emptied, it is lost; when it comes between that and the
# first one's write, it is overwritten. It takes as long as wc runs, some milliseconds.
{
  lib,
  stdenv,
}:

stdenv.mkDerivation {
  pname = "jobs";
  version = "0.1.0";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Makefile
      ./jobs.sh
    ];
  };

  doCheck = true;

  makeFlags = [ "PREFIX=${placeholder "out"}" ];

  meta = {
    description = "Two background jobs that write one file";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "jobs";
  };
}
