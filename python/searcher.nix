# The searcher: the builder of searches. It runs machines as the recorder does, but no run depends on
# it: searches get better, and the runs that they find stay what they are.
{
  lib,
  stdenvNoCC,
  python3,
}:

let
  python = python3.withPackages (ps: [
    ps.attrs
    ps.cbor2
    ps.drgn
    ps.pyelftools
    ps.qemu-qmp
    ps.zstandard
  ]);
in
stdenvNoCC.mkDerivation {
  name = "rewind-searcher";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./rewind/__init__.py
      ./rewind/analysis
      ./rewind/formats
      ./rewind/inspect
      ./rewind/machine
      ./rewind/recorder
      ./rewind/search
    ];
  };

  dontConfigure = true;
  dontBuild = true;

  # Isolated (-I): nothing of the environment it is started in changes what it does.
  installPhase = ''
    runHook preInstall

    mkdir -p $out/bin $out/lib
    cp -r rewind $out/lib/

    cat > $out/bin/rewind-searcher <<EOF
    #!${python}/bin/python3 -I
    import sys
    sys.path.insert(0, "$out/lib")
    from rewind.search.__main__ import main
    sys.exit(main())
    EOF
    chmod +x $out/bin/rewind-searcher

    # By content, not by time: store paths have none.
    ${python}/bin/python3 -m compileall -q --invalidation-mode unchecked-hash $out/lib

    runHook postInstall
  '';

  meta = {
    description = "Builder of rewind's searches";
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rewind-searcher";
  };
}
