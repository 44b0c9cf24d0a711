# A job: what Nix would run for a derivation, in the form in which the recorder is told it.
#
# A flake has the derivation as a value; the command line has no more than its .drv. Both ways
# give the same job, to the byte, and so the same run:
#
#   fromDerivation  does to drv.drvAttrs what builtins.derivationStrict does;
#   fromDrv         takes what the .drv says, and puts the context back on it.
#
# Both return an attribute set:
#
#   name    the derivation's name
#   system  what it is built on
#   drv     the path of its .drv, as text: were the .drv itself an input of a run, every .drv and
#           source behind it would be one
#   file    job.json (python/rewind/formats/job.py): text, without references; what the job needs
#           comes with the layers
#   inputs  toolchain, others and sources, as lib/image.nix takes them
#   graphs  the closures that exportReferencesGraph asks for: name -> list of strings with context
#
# A derivation with the attribute rewindRoot (lib/root.nix) is one in name only: its job is a
# command in a root directory of its own, which is the only layer, `inputs.root`.
#
# A derivation that cannot run in the machine is refused, with one sentence.
{ lib }:

let
  inherit (builtins)
    appendContext
    attrNames
    attrValues
    concatMap
    concatStringsSep
    elem
    elemAt
    filter
    fromJSON
    getContext
    head
    isAttrs
    isList
    isPath
    isString
    length
    listToAttrs
    mapAttrs
    match
    removeAttrs
    split
    tail
    toJSON
    unsafeDiscardStringContext
    ;

  machineSystem = "x86_64-linux";

  # Features of Nix's builders that the machine cannot offer. Others (big-parallel, benchmark) say
  # how much a build takes, not what it needs.
  missingFeatures = [
    "kvm"
    "nixos-test"
    "recursive-nix"
    "uid-range"
  ];

  storePath = "/nix/store/([0-9a-z]{32})-[-+._?=0-9a-zA-Z]+";

  isStorePath = text: isString text && match storePath text != null;

  # The hash parts of all store paths that a text mentions, sorted.
  hashParts =
    text:
    attrNames (
      listToAttrs (
        concatMap (
          part: if isList part then [ (lib.nameValuePair (head part) null) ] else [ ]
        ) (split storePath text)
      )
    );

  hashPart = path: head (match "${storePath}.*" path);

  # As Nix splits the attributes that hold several words.
  words = text: filter (word: isString word && word != "") (split "[ \t\n\r]+" text);

  plain = unsafeDiscardStringContext;

  # A string as derivationStrict coerces a value to one. builtins.toString does it the same way,
  # down to the spaces between the elements of nested lists, but leaves paths where they are, and
  # derivationStrict copies them to the store.
  coerce =
    let
      inStore =
        value:
        if isPath value then
          "${value}"
        else if isList value then
          map inStore value
        else if isAttrs value && value ? __toString then
          inStore (value.__toString value)
        else if isAttrs value && value ? outPath then
          inStore value.outPath
        else
          value;
    in
    value: toString (inStore value);

  # { ${name} = [ path ]; } of "name path name path".
  pairs =
    refuse: list:
    if list == [ ] then
      { }
    else if length list == 1 then
      refuse "has an exportReferencesGraph that is no list of names and paths"
    else
      { ${head list} = [ (elemAt list 1) ]; } // pairs refuse (tail (tail list));

  # What both ways have in common.
  make =
    {
      # path of the .drv
      drv,
      builder,
      args,
      # the .drv's environment
      env,
      # output -> path
      outputs,
      # the inputs, as builtins.getContext has them
      context,
      # the part of them that an attribute brings in
      contextOf,
    }:
    let
      environment = mapAttrs (_: plain) env;
      structured = if env ? __json then fromJSON environment.__json else null;
      attrs = if structured != null then structured else environment;
      inherit (attrs) name;

      # An attribute that is a list, or words in a string.
      wordsOf =
        attribute: default:
        let
          value = attrs.${attribute} or default;
        in
        if isString value then words value else value;

      outputNames = wordsOf "outputs" [ "out" ];

      root = attrs.rewindRoot or null;

      data = {
        inherit name;
        args = map plain args;
        builder = plain builder;
        root = null;
        env = environment;
        outputs = map (output: {
          name = output;
          path = plain outputs.${output};
        }) outputNames;
        structuredAttrs = structured;
      }
      // lib.optionalAttrs (root != null) {
        root = root.directory;
        inherit (root) env;
        outputs = [ ];
        structuredAttrs = null;
      };
      text = toJSON data;

      # --- what it needs

      sources = filter (path: context.${path}.path or false) (attrNames context);
      derivations = lib.filterAttrs (_: entry: entry ? outputs) context;

      stdenv = attrs.stdenv or null;
      stdenvContext = contextOf "stdenv";
      hasToolchain = isStorePath stdenv && length (attrNames stdenvContext) == 1;

      # all derivations' outputs but the toolchain
      others = lib.filterAttrs (_: entry: entry.outputs != [ ]) (
        mapAttrs (
          path: entry:
          let
            toolchain = if hasToolchain then stdenvContext.${path}.outputs or [ ] else [ ];
          in
          { outputs = lib.subtractLists toolchain entry.outputs; }
        ) derivations
      );

      graphs =
        let
          value = attrs.exportReferencesGraph or "";
          graphContext = contextOf "exportReferencesGraph";
          # Nix takes a path inside a store path for that store path.
          root =
            path:
            let
              found = match "(${storePath})(/.*)?" path;
            in
            if found == null then
              refuse "asks for the references of ${path}, which is not in the store"
            else
              appendContext (head found) graphContext;
        in
        mapAttrs (_: paths: map root (lib.toList paths)) (
          if isAttrs value then value else pairs refuse (words value)
        );

      # --- whether it can run

      refuse = why: throw "rewind: ${name} ${why}";

      isSet = attribute: elem (attrs.${attribute} or false) [
        true
        "1"
      ];

      # Itself, or with all that it would build (a context without either is that of outputs).
      isDrvFile =
        path:
        let
          entry = context.${path};
        in
        lib.hasSuffix ".drv" path && (entry.path or entry.allOutputs or false);

      feature = lib.findFirst (name: elem name missingFeatures) null (
        wordsOf "requiredSystemFeatures" [ ]
      );

      checked =
        job:
        if attrs ? outputHash then
          refuse "is a fixed-output derivation: it may use the network, and the machine has none"
        else if !lib.all isStorePath (attrValues (mapAttrs (_: plain) outputs)) then
          refuse "is content-addressed, or made from what is: its outputs have no paths yet"
        else if lib.hasPrefix "builtin:" builder then
          refuse "is built by Nix itself (${builder}): there is no program to run"
        else if attrs.system != machineSystem then
          refuse "is for ${attrs.system}: the machine is ${machineSystem}"
        else if isSet "__noChroot" then
          refuse "has __noChroot: it is to be built outside the sandbox, and the machine is one"
        else if feature != null then
          refuse "needs the system feature ${feature}, which the machine does not have"
        # A layer is packed from what exportReferencesGraph says, and that would have all outputs of
        # all derivations behind a .drv.
        else if lib.any isDrvFile (attrNames context) then
          refuse "has a .drv among its inputs, which is not supported"
        else
          job;
    in
    checked {
      inherit name graphs;
      inherit (attrs) system;
      drv = plain drv;
      file = builtins.toFile "job.json" text;
      inputs =
        if root != null then
          { root = appendContext root.image (contextOf "rewindRoot"); }
        else
          {
            toolchain = if hasToolchain then [ (appendContext stdenv stdenvContext) ] else [ ];
            # Which path in its strings an input derivation made, evaluation does not know. A text
            # with the hash parts of all of them has precisely these paths as its references. Those of
            # sources and of the job's own outputs stay out: they change with every edit of a source,
            # and what a layer is made from would change with them. (An input whose hash part stands
            # nowhere, as its string was cut down to nothing, is left out. Nix would have it in the
            # sandbox, under a name that the job cannot know.)
            others =
              if others == { } then
                [ ]
              else
                lib.subtractLists (map hashPart (sources ++ map (output: output.path) data.outputs)) (
                  map (hash: appendContext hash others) (hashParts text)
                );
            sources = map (path: appendContext path { ${path} = context.${path}; }) sources;
          };
    };
in
{
  fromDerivation =
    drv:
    let
      all =
        if drv ? drvAttrs then
          drv.drvAttrs
        else
          throw "rewind: ${drv.name or "this"} has no drvAttrs: `rewind nix` takes a .drv";

      given =
        if all.__ignoreNulls or false then lib.filterAttrs (_: value: value != null) all else all;

      isStructured = given.__structuredAttrs or false;

      # What derivationStrict acts on and does not pass on.
      attributes = removeAttrs given (
        [
          "__ignoreNulls"
          "args"
        ]
        ++ lib.optional isStructured "__structuredAttrs"
        ++ lib.optional (given.__contentAddressed or false) "__contentAddressed"
        ++ lib.optional (given.__impure or false) "__impure"
      );

      outputs = listToAttrs (
        map (output: lib.nameValuePair output (plain drv.${output}.outPath)) (all.outputs or [ "out" ])
      );

      builder = if isStructured then given.builder else coerce given.builder;
      args = map coerce (given.args or [ ]);
      env =
        (if isStructured then { __json = toJSON attributes; } else mapAttrs (_: coerce) attributes)
        // outputs;
    in
    make {
      inherit
        builder
        args
        env
        outputs
        ;
      drv = drv.drvPath;
      context = getContext (concatStringsSep "" ([ builder ] ++ args ++ attrValues env));
      contextOf =
        attribute:
        let
          value = attributes.${attribute} or "";
        in
        getContext (if isStructured then toJSON value else coerce value);
    };

  # From what a .drv says; all strings as they stand there.
  #
  #   drv        its path
  #   builder, args, env
  #   outputs    { out = "/nix/store/…"; … }; "" for a path that is not known yet
  #   inputDrvs  { "/nix/store/….drv" = { out = "/nix/store/…"; … }; … }: the outputs that are
  #              inputs, with their paths
  #   inputSrcs  [ "/nix/store/…" … ]
  #   structuredAttrs  the JSON text of its attributes, if they are structured and that text is
  #              not in env.__json, where Nix has put it so far
  fromDrv =
    {
      drv,
      builder,
      args,
      env,
      outputs,
      inputDrvs,
      inputSrcs,
      structuredAttrs ? null,
    }:
    let
      environment =
        if structuredAttrs == null then env else env // { __json = structuredAttrs; };

      # A .drv can be both.
      context = union (
        map (path: { ${path}.path = true; }) inputSrcs
        ++ lib.mapAttrsToList (path: made: { ${path}.outputs = attrNames made; }) inputDrvs
      );

      # hash part -> context of what has it
      owners =
        listToAttrs (
          map (path: lib.nameValuePair (hashPart path) { ${path}.path = true; }) inputSrcs
          ++ concatMap (
            path:
            lib.mapAttrsToList (
              output: made: lib.nameValuePair (hashPart made) { ${path}.outputs = [ output ]; }
            ) inputDrvs.${path}
          ) (attrNames inputDrvs)
        );

      # of contexts
      union = lib.foldl' (
        merged: context:
        merged
        // mapAttrs (
          path: value:
          merged.${path} or { }
          // value
          // lib.optionalAttrs (value ? outputs) {
            outputs = lib.unique (merged.${path}.outputs or [ ] ++ value.outputs);
          }
        ) context
      ) { };
    in
    make {
      inherit
        drv
        builder
        args
        outputs
        context
        ;
      env = environment;
      contextOf =
        attribute:
        let
          attrs = if environment ? __json then fromJSON environment.__json else environment;
          text = toJSON (attrs.${attribute} or "");
        in
        union (map (hash: owners.${hash} or { }) (hashParts text));
    };
}
