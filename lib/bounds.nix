# What a search takes besides the options of a run, and what these are unless it is told otherwise.
{
  # Schedules that are tried besides the unperturbed one.
  schedules = 64;

  # The first step at which a perturbation may be.
  from = 0;

  # Whether to go on after the first schedule with another outcome.
  all = false;

  # Whether an outcome is only how the job ends, whatever it made.
  ignoreOutputs = false;

  # What schedules are made of (python/rewind/search/generate.py).
  strategy = "directed";

  # Derivations that the schedules are spread over.
  shards = 1;

  # The host's time that looking for a schedule may take, in seconds. With it what is found
  # depends on the host, so no two searches should be taken for the same: `nonce` tells them apart.
  seconds = null;
  nonce = null;
}
