{
  description = "Debian's packages under the names of the usual package set";

  outputs =
    { self }:
    {
      lib = import ./lib;
      legacyPackages.x86_64-linux = import ./. { system = "x86_64-linux"; };
    };
}
