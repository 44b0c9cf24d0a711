# What a run is made with unless it is told otherwise. All of it is part of a run's name.
{
  # Perturbations, each at a position. None: the unperturbed run.
  schedule = [ ];

  # The wall clock when the job starts, seconds since 1970 (2026-10-07 00:00:00 UTC). Fixed, so
  # that a run's name does not change with the day.
  epoch = 1791331200;

  # What the kernel's random number generator starts from.
  seed = "0";

  # The CPUs that programs see, and NIX_BUILD_CORES. One of them runs.
  cores = 1;

  # The guest's memory, MiB.
  memory = 2048;

  # How long the job may take, seconds of guest time; 0: as long as it likes.
  timeLimit = 3600;
}
