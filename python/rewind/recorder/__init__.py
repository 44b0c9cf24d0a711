"""The recorder: the builder of a run, and of a boot snapshot.

It runs in Nix's sandbox and is told everything by the structured attributes of its
derivation (``$NIX_ATTRS_JSON_FILE``), so that all it is told is part of the derivation's hash.

``python -m rewind.recorder record`` makes a run:

======================= ================ ======================================================
attribute               type             what
======================= ================ ======================================================
``jobName``             string           name of the job, as it appears in the run's name
``settings``            path             the machine (`rewind.machine.settings`)
``snapshot``            path or null     its boot snapshot, made with the same ``settings`` and
                                         ``memory``; null boots from cold
``layers``              list of paths    erofs images, the lowest first, 1 to 4
``job``                 path             job.json (`rewind.formats.job`)
``graphs``              object           for a job with ``exportReferencesGraph``: maps each name
                                         in it to the attribute of this derivation (a key of its
                                         own ``exportReferencesGraph``) that holds that closure;
                                         may be left out
``shell``               string           path of what /bin/sh is in the job's sandbox; a job with a
                                         root of its own has none
``schedule``            list             as `rewind.formats.schedule.from_data` takes it
``epoch``               int              wall clock at the job's start, seconds since 1970
``seed``                string           what the kernel's random number generator is given
``cores``               int              CPUs that programs see, and NIX_BUILD_CORES
``memory``              int              the guest's memory, MiB
``timeLimit``           int              limit on guest time, seconds after the job's start;
                                         0 for none
``drv``                 string           the job's .drv path, as text without context
``system``              string           the job's system, "x86_64-linux"
======================= ================ ======================================================

and, as Nix adds it, ``outputs`` with the paths of ``out`` and ``nars``. In ``out`` it leaves
``manifest.cbor``, ``trace``, ``log`` and, if the kernel said anything, ``console``; in
``nars`` a file ``NAME.nar`` for each output that the job made. The manifest names the
machine and the layers by their store paths, and the NARs hold the paths of the job's inputs: a
run that is not to keep all of these alive sets ``unsafeDiscardReferences`` for both outputs.

``python -m rewind.recorder snapshot`` makes a boot snapshot: ``settings``, ``memory`` and
``outputs.out``, a directory as `rewind.machine.snapshot` describes it.

Exit status: 0 when there is a run, whatever its outcome; 1 when something failed on the way,
so that there is none; 2 when what it was told makes no sense. In both cases one line that
begins with ``rewind:`` says why, and no output is left.
"""
