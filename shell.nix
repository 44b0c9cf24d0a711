# What one needs to work on rewind: to build its parts by hand, and to check them.
{
  lib,
  mkShell,
  erofs-utils,
  gdb,
  jq,
  nixfmt ? null, # the stand-in for nixpkgs (debian/) has none
  python3,
  ruff,
  shellcheck,
  packages,
}:

mkShell {
  inputsFrom = [
    packages.kernel
    packages.qemu
    packages.rewind
  ];

  packages = [
    erofs-utils
    gdb
    jq
    ruff
    shellcheck
    (python3.withPackages (ps: [
      ps.hypothesis
      ps.mypy
      ps.pytest
    ]))
  ]
  ++ lib.optional (nixfmt != null) nixfmt;
}
