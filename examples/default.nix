# Programs whose outcome depends on the order in which their threads and processes run, each a package
# whose build hardly ever fails; and NAME-fixed, the same with the patch that mends it. README.md says
# what goes wrong in which.
{ lib, callPackage }:

let
  fix =
    name: package:
    package.overrideAttrs (_: {
      pname = "${name}-fixed";
      patches = [ (./. + "/${name}/fix.patch") ];
    });

  faulty =
    lib.genAttrs
      [
        "bank"
        "config-reload"
        "counter"
        "etxtbsy"
        "gate"
        "jobs"
        "makefile"
        "once"
        "philosophers"
        "pidfile"
        "pool"
        "queue"
        "rare"
        "reaper"
        "replace"
        "replicas"
        "ring"
        "seqlock"
        "sigpipe"
        "stack"
        "waiter"
      ]
      (name: callPackage (./. + "/${name}") { });
in
faulty
// lib.mapAttrs' (name: package: lib.nameValuePair "${name}-fixed" (fix name package)) faulty
// {
  # There is nothing to be fixed in it.
  spin = callPackage ./spin { };
}
