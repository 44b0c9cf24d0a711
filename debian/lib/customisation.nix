lib: {
  # f's result with `override`, which calls f again with other arguments.
  makeOverridable =
    f: arguments:
    let
      result = f arguments;
      override = changes: lib.makeOverridable f (arguments // lib.toFunction changes arguments);
    in
    if !lib.isAttrs result then
      result
    else
      result
      // {
        inherit override;
      }
      // lib.optionalAttrs (result ? overrideAttrs) {
        overrideAttrs =
          changes: lib.makeOverridable (arguments': (f arguments').overrideAttrs changes) arguments;
      };
  callPackageWith =
    automatic: fileOrFunction: arguments:
    let
      f = if lib.isFunction fileOrFunction then fileOrFunction else import fileOrFunction;
    in
    lib.makeOverridable f (lib.intersectAttrs (lib.functionArgs f) automatic // arguments);
  callPackagesWith =
    automatic: fileOrFunction: arguments:
    let
      f = if lib.isFunction fileOrFunction then fileOrFunction else import fileOrFunction;
    in
    f (lib.intersectAttrs (lib.functionArgs f) automatic // arguments);
  makeScope =
    newScope: f:
    let
      self = f self // {
        newScope = scope: newScope (self // scope);
        callPackage = self.newScope { };
        overrideScope = overlay: lib.makeScope newScope (lib.extends overlay f);
        packages = f;
      };
    in
    self;
  hydraJob = x: x;
}
