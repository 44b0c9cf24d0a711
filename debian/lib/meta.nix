lib: {
  # The output of that name, else the package's main one. A selected output stays as it is.
  getOutput =
    output: package:
    if !lib.isAttrs package || package.outputSpecified or false then
      package
    else
      package.${output} or package.out or package;
  getBin = lib.getOutput "bin";
  getDev = lib.getOutput "dev";
  getLib = lib.getOutput "lib";
  getMan = lib.getOutput "man";
  getInclude = lib.getOutput "include";

  getName =
    x:
    if lib.isString x then (lib.parseDrvName x).name else x.pname or (lib.parseDrvName x.name).name;
  getVersion =
    x:
    if lib.isString x then
      (lib.parseDrvName x).version
    else
      x.version or (lib.parseDrvName x.name).version;
  getExe' = package: name: "${lib.getBin package}/bin/${name}";
  getExe = package: lib.getExe' package (package.meta.mainProgram or (lib.getName package));
  setPrio = priority: package: package // { meta = package.meta or { } // { inherit priority; }; };
  lowPrio = lib.setPrio 10;
  hiPrio = lib.setPrio (-10);
}
