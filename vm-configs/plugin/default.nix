# What watches a replay, for QEMU to load. No run is made with it, and a change here is none of the
# machine: QEMU is only asked for its headers.
{
  stdenv,
  pkg-config,
  glib,
  qemu,
}:

stdenv.mkDerivation {
  pname = "rewind-plugin";
  version = "1";

  src = builtins.path {
    name = "rewind-plugin-source";
    path = ./.;
    # What it is built from: a change of this file alone is none of the plugin.
    filter = path: type: builtins.match ".*\\.[ch]" path != null;
  };

  nativeBuildInputs = [ pkg-config ];
  buildInputs = [ glib ];

  buildPhase = ''
    runHook preBuild
    for plugin in *.c; do
      $CC -O2 -fPIC -shared -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare \
        -isystem ${qemu}/include $(pkg-config --cflags glib-2.0) -o ''${plugin%.c}.so $plugin
    done
    runHook postBuild
  '';

  installPhase = ''
    runHook preInstall
    install -D -t $out/lib *.so
    runHook postInstall
  '';

  meta.description = "Plugins that watch a replay";
}
