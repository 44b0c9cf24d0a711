# The recorder: the builder of runs and boot snapshots. What it contains is part of every run's
# hash, so it holds no more than it needs: of the Python package only what is listed here, none
# of the command line, and no tests.
{
  lib,
  stdenvNoCC,
  python3,
}:

let
  python = python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.pyelftools
    ps.qemu-qmp
    ps.zstandard
  ]);
in
stdenvNoCC.mkDerivation {
  name = "rewind-recorder";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./rewind/__init__.py
      ./rewind/formats
      ./rewind/machine
      ./rewind/recorder
    ];
  };

  dontConfigure = true;
  dontBuild = true;

  # Isolated (-I): nothing of the environment it is started in changes what it does.
  installPhase = ''
    runHook preInstall

    mkdir -p $out/bin $out/lib
    cp -r rewind $out/lib/

    cat > $out/bin/rewind-recorder <<EOF
    #!${python}/bin/python3 -I
    import sys
    sys.path.insert(0, "$out/lib")
    from rewind.recorder.__main__ import main
    sys.exit(main())
    EOF
    chmod +x $out/bin/rewind-recorder

    # By content, not by time: store paths have none.
    ${python}/bin/python3 -m compileall -q --invalidation-mode unchecked-hash $out/lib

    runHook postInstall
  '';

  meta = {
    description = "Builder of rewind's runs";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rewind-recorder";
  };
}
