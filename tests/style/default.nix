# C in the style of the project it belongs to, by that project's own checkpatch.pl; Python outside
# of python/ by ruff; Nix by nixfmt, where the package set has it (Debian's stand-in has not, and
# then there is no such check).
{
  lib,
  runCommand,
  linux_6_12,
  perl,
  qemu,
  ruff,
  nixfmt ? null,
}:

let
  root = ../..;
  sources =
    paths:
    lib.fileset.toSource {
      inherit root;
      fileset = lib.fileset.unions paths;
    };

  driver = sources [ (root + "/vm-configs/kernel/drivers") ];
  init = sources [ (root + "/vm-configs/init") ];
  device = sources [
    (root + "/vm-configs/plugin")
    (root + "/vm-configs/qemu/hw")
    (root + "/vm-configs/qemu/include")
  ];
  examples = sources [ (root + "/examples") ];
  python = sources [
    (root + "/bench")
    (root + "/examples")
    (root + "/docs")
    (root + "/python/pyproject.toml")
    (root + "/tests")
  ];

  # What the kernel has its own macros for, which a program has not.
  ofTheKernelAlone = lib.concatStringsSep "," [
    "ARRAY_SIZE"
    "EMBEDDED_FUNCTION_NAME"
    "FUNCTION_ARGUMENTS"
    "PREFER_DEFINED_ATTRIBUTE_MACRO"
    "SPLIT_STRING"
    "STATIC_CONST_CHAR_ARRAY"
    "SYMBOLIC_PERMS"
  ];
in
{
  c = runCommand "c-style" { nativeBuildInputs = [ perl ]; } ''
    for project in linux qemu; do mkdir $project; done
    tar -C linux --strip-components=1 --wildcards --no-anchored \
      -xf ${linux_6_12.src} 'scripts/checkpatch.pl' 'scripts/spelling.txt' 'scripts/const_structs.checkpatch'
    tar -C qemu --strip-components=1 --wildcards --no-anchored -xf ${qemu.src} 'scripts/checkpatch.pl'

    # check PROJECT DIRECTORY ALLOWED OPTION…: ALLOWED is what may stand in a file's total
    check() {
      local project=$1 directory=$2 allowed=$3 files
      shift 3
      files=$(find "$directory" -name '*.[ch]' | sort)
      for file in $files; do
        perl $project/scripts/checkpatch.pl --no-tree "$@" -f $file > said || true
        grep -q "^total: $allowed" said || {
          cat said
          exit 1
        }
      done
      echo "$directory: $(wc -w <<< "$files") files"
    }
    check linux ${driver} '0 errors, 0 warnings, 0 checks' --strict
    check linux ${init} '0 errors, 0 warnings' --ignore ${ofTheKernelAlone}
    # An example of a plain flag or counter has to say so.
    check linux ${examples} '0 errors, 0 warnings' --ignore ${ofTheKernelAlone},VOLATILE
    # QEMU warns of lines that are longer than 80 characters, if barely.
    check qemu ${device} '0 errors'
    touch $out
  '';

  python = runCommand "python-style" { nativeBuildInputs = [ ruff ]; } ''
    cd ${python}
    ruff check --no-cache --config python/pyproject.toml bench docs examples
    # Tests are looked through for faults; some are written to be terse.
    ruff check --no-cache --isolated --select B,E9,F,W --line-length 100 tests
    touch $out
  '';
}
// lib.optionalAttrs (nixfmt != null) {
  nix = runCommand "nix-style" { nativeBuildInputs = [ nixfmt ]; } ''
    find ${lib.cleanSource root} -name '*.nix' -exec nixfmt --check {} +
    touch $out
  '';
}
