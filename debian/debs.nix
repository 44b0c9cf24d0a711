# Store paths from Debian's packages. The .debs themselves, and all else that lock.json names,
# were put into the store when nixw set up.
{ lib, system }:
let
  lock = lib.importJSON ./lock.json;
  multiarch = "x86_64-linux-gnu";

  # A fixed-output path that is in the store already: the derivation only serves to name it.
  preloaded =
    attrs:
    derivation (
      {
        system = "builtin";
        builder = "builtin:fetchurl";
        url = "file:///run-nixw-once-more/${attrs.name}";
        outputHashAlgo = "sha256";
        outputHashMode = "flat";
        preferLocalBuild = true;
        executable = false;
        unpack = false;
      }
      // attrs
    );

  preloadedTree =
    name:
    preloaded {
      inherit name;
      outputHash = lock.trees.${name};
      outputHashMode = "recursive";
    };

  deb =
    name:
    preloaded {
      name = "${name}.deb";
      outputHash = lock.debs.${name}.sha256;
    };

  # A file of a source package: source "qemu" "orig"
  source =
    name: part:
    let
      entry = lock.sources."${name}.${part}";
    in
    preloaded {
      inherit (entry) name;
      outputHash = entry.sha256;
    }
    // {
      version = upstreamVersion entry.version;
    };

  # What comes from PyPI: wheels.NAME.{version,src}. A line of pypi.txt, in pip's format:
  # NAME==VERSION --hash=sha256:HASH  # FILE
  wheels = lib.listToAttrs (
    lib.concatMap (
      line:
      let
        fields = lib.match "([^=]+)==([^ ]+) --hash=sha256:([0-9a-f]+) *# *(.*)" line;
      in
      lib.optional (fields != null) (
        lib.nameValuePair (lib.elemAt fields 0) {
          version = lib.elemAt fields 1;
          src = preloaded {
            name = lib.elemAt fields 3;
            outputHash = lib.elemAt fields 2;
          };
        }
      )
    ) (lib.splitString "\n" (lib.readFile ./pypi.txt))
  );

  # What trees are unpacked with, and the shell of every sandbox.
  seed = preloadedTree "debian-seed";
  sandboxShell = preloadedTree "busybox-sandbox-shell";

  # 1:1.3.dfsg+really1.3.1-1 -> 1.3.1, 10.0.13+ds-0+deb13u1 -> 10.0.13
  upstreamVersion =
    version:
    let
      noEpoch = lib.last (lib.splitString ":" version);
      really = lib.match ".*[+]really([^-+~]*).*" noEpoch;
    in
    lib.removeSuffix ".dfsg" (
      lib.head (if really != null then really else lib.match "([^-+~]*).*" noEpoch)
    );

  # Dependencies that only mean something in an installed Debian.
  needless = [
    "adduser"
    "base-files"
    "base-passwd"
    "debconf"
    "debianutils"
    "dpkg"
    "install-info"
    "libaudit-common"
    "libaudit1"
    "libc-dev-bin"
    "libdebconfclient0"
    "libpam-modules"
    "libpam-modules-bin"
    "libpam-runtime"
    "libpam0g"
    "libsemanage-common"
    "libsemanage2"
    "libsepol2"
    "libsystemd-shared"
    "login"
    "login.defs"
    "lsb-base"
    "mawk"
    "media-types"
    "mount"
    "passwd"
    "rpcsvc-proto"
    "runit-helper"
    "sensible-utils"
    "systemd"
    "sysvinit-utils"
    "tar"
    "tzdata"
    "ucf"
  ];
  isPerl = name: lib.match "perl|perl-base|perl-modules-.*|libperl5.*" name != null;

  # One tree of the packages of some sets, its programs and libraries patched to find each
  # other and libc in the store. See unpack.sh for the layout.
  tree =
    {
      name,
      # Lines of debian/packages, and those whose packages are in other trees
      sets,
      without ? [
        "libc"
        "libc-dev"
      ],
      # Trees whose libraries are used, besides its own
      libraries ? [ libc ],
      # Packages that stay although they are in `without` or dispensable
      keep ? [ ],
      # The dynamic linker for its programs: a path, "self" for its own, "" to patch nothing
      interpreter ? dynamicLinker,
      # Trees where the interpreters of its scripts are looked for
      interpreters ? [ ],
      # Shell text, run by unpack.sh when all is in place
      post ? "",
      setupHook ? "",
      # What `lib.getLib` gives, and programs linked with this keep in their rpath
      runtime ? null,
      extra ? { },
    }:
    let
      roots = lib.concatMap (set: lock.sets.${set}.roots) sets;
      packages = lib.unique (lib.concatMap (set: lock.sets.${set}.debs) sets);
      unwanted = lib.subtractLists (roots ++ keep) (
        needless
        ++ lib.optionals (!lib.elem "perl" roots) (lib.filter isPerl packages)
        ++ lib.concatMap (set: lock.sets.${set}.debs) without
      );
      version = upstreamVersion lock.debs.${lib.head roots}.version;
    in
    derivation (
      {
        name = "${name}-${version}";
        inherit
          system
          multiarch
          seed
          sandboxShell
          interpreter
          post
          setupHook
          ;
        builder = "${seed}/busybox";
        args = [
          "sh"
          "-eu"
          ./unpack.sh
        ];
        roots = lib.concatStringsSep " " roots;
        debs = map deb (lib.naturalSort (lib.subtractLists unwanted packages));
        libraryPath = lib.concatMapStringsSep ":" (l: "${l}/usr/lib/${multiarch}") libraries;
        interpreters = map (i: "${i}/bin") interpreters;
        runtime = if runtime == null then "" else "${runtime}/usr/lib/${multiarch}";
        preferLocalBuild = true;
        allowSubstitutes = false;
      }
      // extra
    )
    // {
      inherit version;
      pname = name;
    };

  libc = tree {
    name = "glibc";
    sets = [ "libc" ];
    without = [ ];
    libraries = [ ];
    interpreter = "self";
  };
  dynamicLinker = "${libc}/usr/lib64/ld-linux-x86-64.so.2";

  # A tree as a package: with the attributes that a nixpkgs derivation has.
  dress =
    {
      meta ? { },
      passthru ? { },
    }:
    drv:
    let
      self =
        drv
        // {
          inherit meta passthru;
          outputs = [ "out" ];
          outputName = "out";
          out = self;
          bin = self;
          dev = self;
          lib = self;
          man = self;
          override = _: self;
          overrideAttrs =
            _: throw "${drv.name} is made of Debian's packages: it has no overrideAttrs";
        }
        // passthru;
    in
    self;

  # package NAME ATTRS: the tree of the set NAME, with its runtime half if there is one.
  package =
    name: attrs:
    let
      runtime =
        if lock.sets ? "${name}-lib" then
          dress { } (tree {
            name = "${name}-lib";
            sets = [ "${name}-lib" ];
          })
        else
          null;
    in
    dress
      {
        meta.mainProgram = attrs.mainProgram or name;
        passthru = lib.optionalAttrs (runtime != null) { lib = runtime; } // attrs.passthru or { };
      }
      (
        tree (
          {
            inherit name runtime;
            sets = [ name ];
          }
          // removeAttrs attrs [
            "mainProgram"
            "passthru"
          ]
        )
      );
in
{
  inherit
    lock
    multiarch
    preloaded
    deb
    source
    wheels
    seed
    sandboxShell
    upstreamVersion
    tree
    dress
    package
    libc
    dynamicLinker
    ;
}
