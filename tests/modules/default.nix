# Checks of the flake's modules: what comes of them, in as much of flake-parts and of NixOS as they
# meet. Sentences of errors cannot be looked at here: tests/e2e/test_flake.py does.
{
  pkgs,
  packages,
  modules,
  rewind,
}:

let
  inherit (pkgs) lib;

  evalFlake = import ./flake-parts.nix { inherit lib; };
  evalNixos = import ./nixos.nix { inherit pkgs; };

  drvPath = drv: builtins.unsafeDiscardStringContext drv.drvPath;

  # Fails at build time, so that all of them are told of.
  expect =
    what: found: wanted:
    lib.optionalString (found != wanted) ''
      echo ${lib.escapeShellArg "${what}: ${lib.toJSON found}, and not ${lib.toJSON wanted}"}
      exit 1
    '';
  refuses =
    what: value:
    expect "whether there is ${what}" (builtins.tryEval (builtins.deepSeq value true)).success false;

  # Of nobody's options anything is missing in the documentation.
  undescribed =
    options:
    map (option: option.name) (
      lib.filter (option: !option.internal && option.description == null) (
        lib.optionAttrSetToDocList options
      )
    );

  # Ends in one way, soon, whichever of its processes is first.
  calm = derivation {
    name = "calm";
    system = "x86_64-linux";
    builder = "${pkgs.busybox}/bin/busybox";
    PATH = "${pkgs.busybox}/bin";
    args = [
      "sh"
      "-c"
      "echo a > a & echo b > b; wait; cat a b > $out"
    ];
  };

  # A check for which every option is said.
  everyOption = {
    drv = packages.bank;
    name = "all-of-bank";
    schedules = 1000;
    from = 10;
    all = true;
    ignoreOutputs = true;
    strategy = "chance";
    shards = 2;
    schedule = [
      {
        at = "3237+41";
        stall = 1000000;
      }
    ];
    epoch = 5;
    seed = "s";
    cores = 2;
    memory = 1024;
    timeLimit = 60;
  };

  flakeWith =
    module:
    evalFlake {
      imports = [
        modules.flake
        # Twice is once.
        modules.flake
      ];
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      perSystem = module;
    };

  flake = flakeWith (
    { system, ... }:
    {
      checks.own = pkgs.hello;
      rewind.checks = {
        calm = {
          drv = calm;
          schedules = 2;
        };
        bank.drv = packages.bank;
        bank-all = everyOption;
        timed = {
          drv = packages.bank;
          seconds = 1.5;
          nonce = "n";
        };
      };
    }
  );
  checks = flake.flake.checks.x86_64-linux;

  checkWith =
    settings:
    drvPath
      (flakeWith {
        rewind.checks.bank = {
          drv = packages.bank;
        }
        // settings;
      }).flake.checks.x86_64-linux.bank;

  # The options of a check, without the module's own.
  options = flake.evaluated.x86_64-linux.options.rewind;
  optionNames = lib.filter (name: name != "_module") (
    lib.attrNames (options.checks.type.getSubOptions options.checks.loc)
  );
  # All arguments of lib.check.
  arguments = lib.sort (a: b: a < b) (
    lib.attrNames (import ../../lib/defaults.nix // import ../../lib/bounds.nix)
    ++ [
      "drv"
      "name"
    ]
  );

  nixos = evalNixos [
    modules.nixos
    modules.nixos
    {
      programs.rewind = {
        enable = true;
        debuginfod.enable = true;
        debuginfod.timeout = 60;
      };
      services.rewind.postBuildHook = {
        enable = true;
        settings = {
          queue = "/build/queue";
          names = [ "bank-*" ];
          action = "check";
          push = "s3://cache";
          sign = "/etc/nix/key";
        };
      };
    }
  ];
  inherit (nixos) config;
  unit = config.systemd.services.rewind-hook;

  # With nothing but this said.
  of = settings: (evalNixos [ modules.nixos settings ]).config;
  off = of { };
  plain = of { services.rewind.postBuildHook.enable = true; };
  servers = of {
    programs.rewind.debuginfod = {
      enable = true;
      servers = [ "https://debuginfod.example" ];
    };
  };
  # An older NixOS.
  ofOld =
    settings:
    (import ./nixos.nix {
      inherit pkgs;
      debuginfod = false;
    } [ modules.nixos { programs.rewind.debuginfod = settings; } ]).config;
  met = config: lib.all (one: one.assertion) config.assertions;
  hookWith = settings: (of { services.rewind.postBuildHook.settings = settings; }).services.rewind;
in
{
  flake-parts = pkgs.runCommand "module-flake-parts" { } ''
    ${expect "the checks" (lib.attrNames checks) [
      "bank"
      "bank-all"
      "calm"
      "own"
      "timed"
    ]}
    ${expect "the checks where there is no machine" (lib.attrNames flake.flake.checks.aarch64-linux) [
      "own"
    ]}
    ${expect "the options of a check" optionNames arguments}
    ${expect "what is without a description" (undescribed options) [ ]}
    ${expect "a check with a drv alone" (drvPath checks.bank) (
      drvPath (rewind.check { drv = packages.bank; })
    )}
    ${expect "a check with all options" (drvPath checks.bank-all) (
      drvPath (
        rewind.check everyOption
      )
    )}
    ${expect "a check with a limit" (drvPath checks.timed) (
      drvPath (
        rewind.check {
          drv = packages.bank;
          seconds = 1.5;
          nonce = "n";
        }
      )
    )}
    ${expect "the unperturbed run of a check" (drvPath checks.bank.unperturbed) (
      drvPath (rewind.run { drv = packages.bank; })
    )}
    ${refuses "a check without a drv" (
      drvPath (flakeWith { rewind.checks.bank = { }; }).flake.checks.x86_64-linux.bank
    )}
    ${refuses "a check of a string" (
      drvPath (flakeWith { rewind.checks.bank.drv = "bank"; }).flake.checks.x86_64-linux.bank
    )}
    ${refuses "an option that is none" (checkWith { colour = "blue"; })}
    ${refuses "a number as text" (checkWith { schedules = "64"; })}
    ${refuses "a negative number" (checkWith { schedules = -1; })}
    ${refuses "no shard" (checkWith { shards = 0; })}
    ${refuses "another strategy" (checkWith { strategy = "luck"; })}
    # The report of one that passes.
    cat ${checks.calm.search}/report.txt
    test -e ${checks.calm}
    touch $out
  '';

  nixos =
    pkgs.runCommand "module-nixos"
      {
        nativeBuildInputs = [
          pkgs.jq
          pkgs.python3
        ];
        settings = config.environment.etc."rewind/hook.json".source;
        defaults = plain.environment.etc."rewind/hook.json".source;
      }
      ''
        ${expect "what is without a description" (undescribed (
          removeAttrs nixos.options [
            "_module"
            "assertions"
            "environment"
            "nix"
            "systemd"
          ]
        )) [ ]}

        # Off, it is nothing.
        ${expect "units" off.systemd.services { }}
        ${expect "packages" off.environment.systemPackages [ ]}
        ${expect "settings of Nix" off.nix.settings { }}
        ${expect "files" off.environment.etc { }}

        ${expect "packages" (map toString config.environment.systemPackages) [
          "${packages.rewind}"
        ]}
        ${expect "nixseparatedebuginfod2" config.services.nixseparatedebuginfod2.enable true}
        ${expect "variables" config.environment.variables { DEBUGINFOD_TIMEOUT = "60"; }}
        ${expect "nixseparatedebuginfod2 with servers" servers.services.nixseparatedebuginfod2.enable
          false
        }
        ${expect "servers" servers.environment.debuginfodServers [ "https://debuginfod.example" ]}

        ${expect "debuginfod off, on an older NixOS" (met (ofOld { })) true}
        ${expect "debuginfod there" (met (ofOld { enable = true; })) false}
        ${expect "debuginfod there, with servers" (met (ofOld {
          enable = true;
          servers = [ "https://debuginfod.example" ];
        })) true}

        ${expect "assertions" (map (one: one.assertion) config.assertions) [
          true
          true
        ]}
        ${expect "assertions without Nix" (met (of {
          nix.enable = false;
          services.rewind.postBuildHook.enable = true;
        })) false}
        ${expect "wantedBy" unit.wantedBy [ "multi-user.target" ]}
        ${expect "after" unit.after [
          "nix-daemon.socket"
          "network-online.target"
        ]}
        ${expect "the unit's programs" (map lib.getName unit.path) [
          (lib.getName config.nix.package)
          "openssh"
        ]}
        ${expect "the unit's paths" unit.serviceConfig.ReadWritePaths [ "/build/queue" ]}
        ${expect "tmpfiles" config.systemd.tmpfiles.rules [ "d /build/queue 0755 root root -" ]}
        ${refuses "a number as text" (hookWith { schedules = "64"; })}
        ${refuses "no attempt" (hookWith { attempts = 0; })}
        ${refuses "another action" (hookWith { action = "run"; })}
        ${refuses "a relative queue" (hookWith { queue = "queue"; })}
        ${refuses "a setting that is none" (hookWith { colour = "blue"; })}

        # The file is one that the hook reads: it queues what is wanted, and nothing else.
        hook=${config.nix.settings.post-build-hook}
        queue() {
          REWIND_HOOK=$1 DRV_PATH=$2 OUT_PATHS=/nix/store/x "$hook" 2> said
          if [ -s said ]; then cat said; exit 1; fi
        }
        echo 'Derive()' | tee hash-bank-1.0.drv > hash-other.drv
        queue $settings $PWD/hash-bank-1.0.drv
        jq -e '.action == "check" and .outputs == ["/nix/store/x"]' \
          queue/waiting/hash-bank-1.0.json
        rm -r queue
        queue $settings $PWD/hash-other.drv
        test ! -e queue

        # And so is the worker's, with the program and the arguments of its unit.
        words="${unit.serviceConfig.ExecStart}"
        test "''${words%% *}" = ${packages.rewind}/bin/rewind
        test "''${words#* }" = "hook run --config /etc/rewind/hook.json"
        export HOME=$PWD
        for file in $settings $defaults; do
          ''${words%% *} hook status --config $file | grep -qx "nothing waits"
        done
        jq -e '.sign == "/etc/nix/key" and .push == "s3://cache"' $settings

        # Of no setting the module says another default than the hook has, or does not know it.
        python3 ${./settings.py} ${../../python/rewind/hook/settings.py} $defaults
        touch $out
      '';
}
