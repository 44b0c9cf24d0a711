# Options: their declarations, how definitions of one are merged, and how both are shown.
lib:
let
  inherit (lib)
    concatMap
    concatMapStrings
    concatStringsSep
    head
    isAttrs
    length
    ;

  # What a person is to see of a value: no more than a few lines, and nothing is built for it.
  pretty =
    value:
    if lib.isFunction value then
      "<function>"
    else if lib.isDerivation value then
      "<derivation ${value.name or "?"}>"
    else if lib.isList value then
      "[ ${concatMapStrings (one: pretty one + " ") value}]"
    else if isAttrs value then
      "{ ${lib.concatMapAttrsStringSep "" (name: one: "${name} = ${pretty one}; ") value}}"
    else if lib.isString value then
      lib.escapeNixString value
    else if value == null then
      "null"
    else if lib.isBool value then
      lib.boolToString value
    else
      toString value;
in
{
  isOption = x: isAttrs x && x._type or null == "option";

  # default, defaultText, example, description, type, apply, internal, visible, readOnly, relatedPackages
  mkOption = attributes: { _type = "option"; } // attributes;

  mkEnableOption =
    what:
    lib.mkOption {
      type = lib.types.bool;
      default = false;
      example = true;
      description = "Whether to enable ${what}.";
    };

  mkPackageOption =
    pkgs: name:
    {
      nullable ? false,
      default ? name,
      example ? null,
      extraDescription ? "",
      pkgsText ? "pkgs",
    }:
    let
      path = lib.toList default;
      text = concatStringsSep "." ([ pkgsText ] ++ path);
      packageType = if nullable then lib.types.nullOr lib.types.package else lib.types.package;
    in
    lib.mkOption (
      {
        type = packageType;
        description = "The ${
          if lib.isList name then lib.last name else name
        } package to use.${lib.optionalString (extraDescription != "") " ${extraDescription}"}";
      }
      // lib.optionalAttrs (default != null) {
        default = lib.attrByPath path (throw "${text} cannot be found in pkgs") pkgs;
        defaultText = lib.literalExpression text;
      }
      // lib.optionalAttrs (example != null) {
        example = lib.literalExpression (
          if lib.isList example then "pkgs.${concatStringsSep "." example}" else example
        );
      }
    );

  isType = type: x: isAttrs x && x._type or null == type;

  # A type of options; lib/types.nix says what is in one.
  mkOptionType =
    given@{
      name,
      description ? name,
      descriptionClass ? null,
      check ? _: true,
      merge ? lib.mergeDefaultOption,
      emptyValue ? { },
      getSubOptions ? _: { },
      getSubModules ? null,
      substSubModules ? _: null,
      functor ? {
        inherit name;
        payload = null;
      },
      typeMerge ? null,
      nestedTypes ? { },
    }:
    let
      self = {
        _type = "option-type";
        inherit
          name
          description
          descriptionClass
          check
          merge
          emptyValue
          getSubOptions
          getSubModules
          substSubModules
          functor
          nestedTypes
          ;
        # The type that is this one and that with the functor `other`; null if there is none.
        typeMerge =
          if given ? typeMerge then
            typeMerge
          else
            other:
            if other.name != functor.name then
              null
            else if functor.payload == null then
              if other.payload == null then self else null
            else
              let
                both = functor.binOp functor.payload other.payload;
              in
              if both == null then null else functor.make both;
      };
    in
    self;

  literalExpression = text: {
    _type = "literalExpression";
    inherit text;
  };
  literalMD = text: {
    _type = "literalMD";
    inherit text;
  };

  getValues = map (definition: definition.value);
  getFiles = map (definition: definition.file);

  mergeDefaultOption =
    location: definitions:
    let
      values = lib.getValues definitions;
    in
    if length values == 1 then
      head values
    else if lib.all lib.isList values then
      lib.concatLists values
    else if lib.all isAttrs values then
      lib.mergeAttrsList values
    else
      lib.mergeEqualOption location definitions;

  # Ways to make one value of an option's definitions.
  mergeOneOption = lib.mergeUniqueOption { message = ""; };
  mergeUniqueOption =
    { message }:
    location: definitions:
    if length definitions == 1 then
      (head definitions).value
    else
      throw "The option `${lib.showOption location}' is defined multiple times while it's expected to be unique.${
        lib.optionalString (message != "") "\n${message}"
      } Definition values:${lib.showDefs definitions}";
  mergeEqualOption =
    location: definitions:
    if definitions == [ ] then
      throw "The option `${lib.showOption location}' is used but not defined."
    else
      lib.foldl' (
        first: definition:
        if definition.value == first then
          first
        else
          throw "The option `${lib.showOption location}' has conflicting definition values:${lib.showDefs definitions}\nUse `lib.mkForce value` or `lib.mkDefault value` to change the priority on any of these definitions."
      ) (head definitions).value definitions;

  # a.b."c d"
  showOption =
    location:
    concatStringsSep "." (
      map (
        part:
        if lib.match "[a-zA-Z_][a-zA-Z0-9_'-]*|\\*|<.*>|\\[.*]" part != null then
          part
        else
          lib.escapeNixString part
      ) location
    );
  showFiles = files: concatStringsSep " and " (map (file: "`${toString file}'") files);
  showDefs = concatMapStrings (
    definition:
    let
      shown = builtins.tryEval (builtins.deepSeq (pretty definition.value) (pretty definition.value));
    in
    "\n- In `${toString definition.file}'${
      lib.optionalString shown.success ": ${builtins.substring 0 400 shown.value}"
    }"
  );

  # Every option in a tree of them, those within submodules too, as documentation wants them.
  optionAttrSetToDocList =
    options:
    concatMap (
      option:
      let
        inner = option.type.getSubOptions option.loc;
      in
      [
        {
          inherit (option) loc;
          name = lib.showOption option.loc;
          description = option.description or null;
          declarations = option.declarations or [ ];
          internal = option.internal or false;
          visible = option.visible or true;
          readOnly = option.readOnly or false;
          type = option.type.description or "unspecified value";
        }
      ]
      ++ lib.optionals (option.visible or true == true) (lib.optionAttrSetToDocList inner)
    ) (lib.collect lib.isOption options);
}
