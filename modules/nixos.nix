# For NixOS: the command line, debug information for it, and the post-build hook with its worker.
#
# `packages` are rewind's own, by system.
{ packages }:

{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  inherit (lib)
    mkIf
    mkMerge
    mkOption
    types
    ;

  program = config.programs.rewind;
  hook = config.services.rewind.postBuildHook;

  format = pkgs.formats.json { };
  settingsFile = format.generate "rewind-hook.json" hook.settings;

  system = pkgs.stdenv.hostPlatform.system;

  # A NixOS that does not have it refuses to be told anything of it, on or off.
  hasServer = options.services ? nixseparatedebuginfod2;

  # Where the hook and `rewind hook` look for it.
  settingsPath = "rewind/hook.json";
in
{
  _class = "nixos";
  # Once, however often it is imported.
  key = ./nixos.nix;

  options = {
    programs.rewind = {
      enable = lib.mkEnableOption "rewind, replayable runs of Nix builds";

      package = lib.mkPackageOption (
        packages.${system} or (throw "rewind: there is no machine for ${system}, only for x86_64-linux")
      ) "rewind" { pkgsText = "inputs.rewind.packages.\${system}"; };

      debuginfod = {
        enable = lib.mkEnableOption ''
          debug information of a run's inputs from debuginfod servers, for `rewind gdb` and
          `rewind where`. They and gdb find the servers in `DEBUGINFOD_URLS`. For what is installed on
          this machine there is `environment.enableDebugInfo` as well, which sets `NIX_DEBUG_INFO_DIRS`'';

        servers = mkOption {
          type = types.listOf types.str;
          default = [ ];
          example = [ "https://debuginfod.example" ];
          description = ''
            The servers' URLs. If there are none nixseparatedebuginfod2 is started on this machine, which
            serves the `debug` outputs of its store and of cache.nixos.org.
          '';
        };

        timeout = mkOption {
          type = types.nullOr types.ints.positive;
          default = null;
          example = 60;
          description = ''
            Seconds that a server may take for a file (`DEBUGINFOD_TIMEOUT`); null for 10.
          '';
        };
      };
    };

    services.rewind.postBuildHook = {
      enable = lib.mkEnableOption ''
        rewind's post-build hook, which queues what Nix has built and is wanted, and a service that
        records it, or searches it for schedules under which it ends otherwise'';

      package = mkOption {
        type = types.package;
        default = program.package;
        defaultText = lib.literalExpression "config.programs.rewind.package";
        description = "The rewind package to use.";
      };

      settings = mkOption {
        default = { };
        description = ''
          What is wanted, and what is done with it: `/etc/rewind/hook.json`. docs/hook.md of rewind tells
          of it.
        '';
        type = types.submodule {
          options = {
            queue = mkOption {
              type = types.path;
              default = "/var/lib/rewind/hook";
              apply = toString;
              description = "The directory of the queue, and of the results.";
            };

            names = mkOption {
              type = types.listOf types.str;
              default = [ ];
              example = [ "bank-*" ];
              description = ''
                Patterns of names: a derivation is wanted whose name, without the hash, fits one of them.
              '';
            };

            attribute = mkOption {
              type = types.nonEmptyStr;
              default = "rewindHook";
              description = ''
                A derivation is wanted that sets this attribute to `"record"` or `"check"`, and this is
                done with it.
              '';
            };

            all = mkOption {
              type = types.bool;
              default = false;
              description = "Whether every derivation is wanted.";
            };

            action = mkOption {
              type = types.enum [
                "record"
                "check"
              ];
              default = "record";
              description = ''
                What is done with derivations that are wanted because of their name, or as all are: their
                build is recorded, and with `check` searched as well.
              '';
            };

            schedules = mkOption {
              type = types.ints.positive;
              default = 64;
              description = "How many schedules a check tries.";
            };

            push = mkOption {
              type = types.nullOr types.str;
              default = null;
              example = "s3://cache?region=eu-central-1";
              description = "The URL of a store that runs and reports are copied to.";
            };

            sign = mkOption {
              type = types.nullOr types.path;
              default = null;
              # A path literal would be copied to the store, where everybody can read it.
              apply = path: if path == null then null else toString path;
              example = "/etc/nix/cache-secret-key";
              description = ''
                A file with the secret key (`nix key generate-secret`) that runs and reports are signed
                with before they are copied. It is to be a string, as a path would be copied to the
                store, and root reads it.
              '';
            };

            attempts = mkOption {
              type = types.ints.positive;
              default = 5;
              description = "How often something is tried that fails, before it is given up.";
            };
          };
        };
      };
    };
  };

  config = mkMerge [
    (mkIf program.enable { environment.systemPackages = [ program.package ]; })

    (mkIf program.debuginfod.enable (mkMerge [
      (mkIf (program.debuginfod.servers != [ ]) {
        environment.debuginfodServers = program.debuginfod.servers;
      })
      (mkIf (program.debuginfod.servers == [ ]) (
        lib.optionalAttrs hasServer { services.nixseparatedebuginfod2.enable = true; }
      ))
      {
        assertions = [
          {
            assertion = hasServer || program.debuginfod.servers != [ ];
            message = "This NixOS has no nixseparatedebuginfod2: set programs.rewind.debuginfod.servers.";
          }
        ];
      }
      (mkIf (program.debuginfod.timeout != null) {
        environment.variables.DEBUGINFOD_TIMEOUT = toString program.debuginfod.timeout;
      })
    ]))

    (mkIf hook.enable {
      assertions = [
        {
          assertion = config.nix.enable;
          message = "services.rewind.postBuildHook is a hook of the Nix daemon: it takes nix.enable.";
        }
      ];

      nix.settings.post-build-hook = lib.getExe' hook.package "rewind-post-build-hook";

      environment.etc.${settingsPath}.source = settingsFile;

      # The hook would make it, when there is something to queue; the service's file system is to
      # have it from the beginning.
      systemd.tmpfiles.rules = [ "d ${hook.settings.queue} 0755 root root -" ];

      # It looks at the queue by itself: no other unit has to start it when something comes.
      systemd.services.rewind-hook = {
        description = "Recording what Nix has built";
        wantedBy = [ "multi-user.target" ];
        wants = [
          "nix-daemon.socket"
          "network-online.target"
        ];
        after = [
          "nix-daemon.socket"
          "network-online.target"
        ];
        restartTriggers = [ settingsFile ];

        path = [
          config.nix.package
          # for a store that is reached by ssh
          pkgs.openssh
        ];
        environment = {
          # root's Nix would use the store itself, which is read-only here.
          NIX_REMOTE = "daemon";
          HOME = "/var/lib/rewind";
          # There is `rewind` in each of them, or Nix's own.
          XDG_STATE_HOME = "/var/lib";
          XDG_CACHE_HOME = "/var/cache/rewind";
        };

        serviceConfig = {
          ExecStart = "${lib.getExe hook.package} hook run --config /etc/${settingsPath}";
          # Whatever happens, what waits is still in the queue.
          Restart = "always";
          RestartSec = 10;
          StateDirectory = "rewind";
          CacheDirectory = "rewind";
          ReadWritePaths = [ hook.settings.queue ];

          # It is root, as the hook is: what the hook queues is root's, and Nix's daemon lets root
          # sign. It is no more than that: all builds are the daemon's.
          CapabilityBoundingSet = "";
          NoNewPrivileges = true;
          LockPersonality = true;
          PrivateDevices = true;
          PrivateMounts = true;
          PrivateTmp = true;
          ProtectClock = true;
          ProtectControlGroups = true;
          ProtectHome = true;
          ProtectHostname = true;
          ProtectKernelLogs = true;
          ProtectKernelModules = true;
          ProtectKernelTunables = true;
          ProtectProc = "invisible";
          ProtectSystem = "strict";
          RemoveIPC = true;
          RestrictAddressFamilies = [
            "AF_UNIX"
            "AF_INET"
            "AF_INET6"
          ];
          RestrictNamespaces = true;
          RestrictRealtime = true;
          RestrictSUIDSGID = true;
          SystemCallArchitectures = "native";
          SystemCallFilter = [ "@system-service" ];
        };
      };
    })
  ];
}
