# A job that runs programs for the test to look into. They are made here, and not in the machine,
# where a C++ compiler takes long; the job copies them to where they would have been made.
{
  bash,
  coreutils,
  glibc,
  stdenv,
}:

let
  programs = stdenv.mkDerivation {
    name = "rewind-inspect-programs";

    src = ./programs;

    # In the stand-in for nixpkgs the compiler comes with them.
    buildInputs = [ (glibc.static or glibc) ];

    buildPhase = ''
      runHook preBuild
      flags="-O2 -g -Wall -Wextra -Werror"
      library="-DPART -L. -lpart -Wl,-rpath,$PWD"
      $CC $flags -shared -fPIC -o libpart.so part.c
      $CC $flags -fPIE -pie -o pie calls.c $library
      $CC $flags -fno-pie -no-pie -o no-pie calls.c $library
      $CC $flags -static -o static calls.c
      $CC $flags -fno-omit-frame-pointer -o pointers calls.c $library
      $CXX $flags -pthread -o names names.cc
      $CC $flags -pthread -o waits waits.c
      $CC $flags -o damaged damaged.c
      $CC $flags -o busy busy.c
      $CC $flags -o files files.c

      $STRIP -s -o stripped pie
      $STRIP -g -o symbols pie
      mkdir -p debug
      $OBJCOPY --only-keep-debug pie debug/pie.debug
      $STRIP -g -o separate pie

      # Debug information that is none.
      cp pie garbled
      for section in .debug_info .debug_line .debug_abbrev .eh_frame; do
        $OBJCOPY --dump-section $section=section pie
        tr '\001-\100' '\100-\177' < section > garbled-section
        $OBJCOPY --update-section $section=garbled-section garbled
      done
      runHook postBuild
    '';

    installPhase = ''
      runHook preInstall
      rm section garbled-section
      cp -r . $out
      runHook postInstall
    '';

    # They stay as they were made, and find their library in /build.
    dontFixup = true;
  };
in
derivation {
  name = "rewind-inspect-job";
  system = "x86_64-linux";
  builder = "${bash}/bin/bash";
  PATH = "${coreutils}/bin";
  inherit programs;
  args = [
    "-euc"
    ''
      cp -r $programs programs
      chmod -R u+w programs
      cd programs
      for program in busy pie no-pie static pointers stripped symbols separate names damaged garbled waits files; do
        echo "running $program"
        ./$program
      done
      echo "running stored"
      $programs/pie
      : > $out
    ''
  ];
}
