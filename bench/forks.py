"""What a fork costs until it is ready, started by ``bench.search`` with the searcher's Python.

The arguments: where the searcher's modules are, the attributes of a search, how many forks. A line
each is printed: seconds until the machine, a fork of a keyframe at the middle of the run, has
stopped one step later.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from rewind.formats.schedule import Position
from rewind.recorder.request import attributes
from rewind.search import machines
from rewind.search.machines import Keyframe, Stopped
from rewind.search.request import SearchRequest


def main() -> None:
    """Do what the command line says."""
    request = SearchRequest.parse(attributes(Path(sys.argv[2]))).run
    whole = machines.run(request, request.schedule)
    assert whole is not None
    step = whole.steps // 2
    kept: list[Keyframe] = []

    def keep(stopped: Stopped) -> bool:
        kept.append(stopped.keyframe(last=True))
        return False

    def enough(stopped: Stopped) -> bool:
        return False

    machines.run(request, request.schedule, stops=[Position(step)], own_memory=True, on_stop=keep)
    for _ in range(int(sys.argv[3])):
        begin = time.perf_counter()
        ready: list[float] = []

        def stopped(_: Stopped, ready: list[float] = ready) -> bool:
            ready.append(time.perf_counter())
            return False

        machines.run(
            request,
            request.schedule,
            stops=[Position(step + 1)],
            keyframe=kept[0],
            on_stop=stopped,
        )
        print(ready[0] - begin)


if __name__ == "__main__":
    main()
