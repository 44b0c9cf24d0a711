# A program that is the builder of derivations: some of the Python package's parts, with what they
# import, and nothing else, as what it contains is part of the hash of all that it builds.
{
  lib,
  stdenvNoCC,
  python3,
}:

{
  # the program is called rewind-NAME
  name,
  # the Python module that it runs
  module,
  # paths of the parts
  parts,
  # python3.pkgs -> what the parts import
  dependencies,
  description,
}:

let
  python = python3.withPackages dependencies;
in
stdenvNoCC.mkDerivation {
  name = "rewind-${name}";

  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions ([ ./rewind/__init__.py ] ++ parts);
  };

  dontConfigure = true;
  dontBuild = true;

  # Isolated (-I): nothing of the environment it is started in changes what it does.
  installPhase = ''
    runHook preInstall

    mkdir -p $out/bin $out/lib
    cp -r rewind $out/lib/

    cat > $out/bin/rewind-${name} <<EOF
    #!${python}/bin/python3 -I
    import sys
    sys.path.insert(0, "$out/lib")
    from ${module}.__main__ import main
    sys.exit(main())
    EOF
    chmod +x $out/bin/rewind-${name}

    # By content, not by time: store paths have none.
    ${python}/bin/python3 -m compileall -q --invalidation-mode unchecked-hash $out/lib

    runHook postInstall
  '';

  meta = {
    inherit description;
    license = lib.licenses.mit;
    platforms = [ "x86_64-linux" ];
    mainProgram = "rewind-${name}";
  };
}
