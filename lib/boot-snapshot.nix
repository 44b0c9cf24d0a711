# The machine's state at the end of its boot, before it knows of a job. Every run of the same
# machine and memory starts from it, and is the run that a cold boot would have given.
{
  recorder,
  machine,
}:

{ memory }:

derivation {
  name = "rewind-boot-snapshot";
  system = "x86_64-linux";

  __structuredAttrs = true;

  builder = "${recorder}/bin/rewind-recorder";
  args = [ "snapshot" ];

  # The guest's memory is full of what looks like store paths.
  unsafeDiscardReferences.out = true;

  settings = machine;
  inherit memory;
}
