lib: {
  splitVersion = builtins.splitVersion;
  major = version: lib.elemAt (lib.splitVersion version) 0;
  minor = version: lib.elemAt (lib.splitVersion version) 1;
  patch = version: lib.elemAt (lib.splitVersion version) 2;
  majorMinor = version: lib.concatStringsSep "." (lib.take 2 (lib.splitVersion version));
}
