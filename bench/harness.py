"""A machine started as the recorder starts it, to see one thing of it; for the recorder's Python.

``harness.py LIB first ATTRIBUTES`` ends when the job's first record has come, and prints how many
seconds that is after it began to start QEMU; ``silent`` runs the job to its end with a device that
writes no trace. LIB is where the recorder's package is,
ATTRIBUTES the file with a run's structured attributes.

The job's first record is the end of the execve with which it begins. The device writes when it
has much to write, or when the machine stops, so the schedule stops it there.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from rewind.machine.settings import Settings
from rewind.machine.snapshot import restore
from rewind.recorder.request import RunRequest, attributes
from rewind.recorder.start import properties


def main() -> int:
    """Do what the command line says."""
    _, _, mode, path = sys.argv
    request = RunRequest.parse(attributes(Path(path)))
    assert request.snapshot is not None
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        scratch = Path(directory)
        device = properties(request, scratch, "0 0 stop 0\n" if mode == "first" else "")
        reader, writer = os.pipe()
        if mode == "first":
            device["trace"] = f"/proc/self/fd/{writer}"
        settings = Settings.load(request.settings)
        begin = time.perf_counter()
        with restore(
            settings, request.snapshot, scratch=scratch, device=device, pass_fds=[writer]
        ) as machine:
            os.close(writer)
            # Of a silent machine only the end comes: that of the pipe, which it has inherited.
            came = os.read(reader, 4096)
            if mode == "first":
                print(time.perf_counter() - begin)
            else:
                machine.process.wait()
        if bool(came) != (mode == "first"):
            print(machine.failure(), file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
