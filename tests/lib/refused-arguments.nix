# Arguments that rewind's functions do not take, and what is said of each.
{ rewind, samples }:

let
  search = args: rewind.search ({ drv = samples.bank; } // args);
in
{
  unknownOption = {
    drv = rewind.run {
      drv = samples.bank;
      cours = 2;
    };
    says = "run called with unexpected argument 'cours': it takes drv, cores, epoch";
  };

  unknownBound = {
    drv = search { schedulez = 16; };
    says = "search called with unexpected argument 'schedulez': it takes drv, cores, epoch";
  };

  # A run has no bounds.
  boundOfRun = {
    drv = rewind.run {
      drv = samples.bank;
      schedules = 16;
    };
    says = "run called with unexpected argument 'schedules'";
  };

  noDrv = {
    drv = rewind.check { schedules = 16; };
    says = "check called without required argument 'drv'";
  };

  noRoot = {
    drv = rewind.run { drv = rewind.inRoot { command = [ "true" ]; }; };
    says = "inRoot takes a root (a directory or tarball) or an image";
  };

  commandIsNoList = {
    drv = rewind.run {
      drv = rewind.inRoot {
        root = ./.;
        command = "true";
      };
    };
    says = "command is a list of a program and its arguments";
  };

  relativeCwd = {
    drv = rewind.run {
      drv = rewind.inRoot {
        root = ./.;
        command = [ "true" ];
        cwd = "src";
      };
    };
    says = "cwd is an absolute path in the root";
  };

  noDerivation = {
    drv = rewind.check { drv = "bank"; };
    says = "this has no drvAttrs";
  };

  halfADrv = {
    drv = rewind.searchFromDrv { drv = "/nix/store/bank.drv"; };
    says = "searchFromDrv called without required argument 'args'";
  };

  schedulesText = {
    drv = search { schedules = "x"; };
    says = "schedules is a whole number, not string";
  };

  schedulesNegative = {
    drv = rewind.check {
      drv = samples.bank;
      schedules = -1;
    };
    says = "schedules is at least 0, not -1";
  };

  fromText = {
    drv = search { from = "100"; };
    says = "from is a whole number, not string";
  };

  allText = {
    drv = search { all = "yes"; };
    says = "all is true or false, not string";
  };

  ignoreOutputsNumber = {
    drv = search { ignoreOutputs = 1; };
    says = "ignoreOutputs is true or false, not int";
  };

  strategyList = {
    drv = search { strategy = [ ]; };
    says = "strategy is a string, not list";
  };

  shardsNone = {
    drv = search { shards = 0; };
    says = "shards is at least 1, not 0";
  };

  secondsText = {
    drv = search {
      seconds = "90s";
      nonce = "1";
    };
    says = "seconds is a number above 0";
  };

  secondsAlone = {
    drv = search { seconds = 90; };
    says = "a search with a limit of seconds is one of its kind: it takes a nonce";
  };

  scheduleText = {
    drv = search { schedule = "100"; };
    says = "schedule is a list of perturbations, not string";
  };

  nameNumber = {
    drv = search { name = 1; };
    says = "name is a string, not int";
  };

  seedNumber = {
    drv = search { seed = 1; };
    says = "seed is a string, not int";
  };
}
