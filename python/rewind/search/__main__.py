"""``python -m rewind.search``: the builder of a search; see `rewind.search.request`."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rewind.formats import FormatError, schedule
from rewind.machine import MachineError
from rewind.recorder.pipes import StreamError
from rewind.recorder.request import RequestError, attributes
from rewind.search import SearchError, report, text
from rewind.search.conflicts import Conflicts
from rewind.search.engine import Found, Search
from rewind.search.places import Places
from rewind.search.report import Tried
from rewind.search.request import SearchRequest


class Interrupted(BaseException):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> int:
    """Make the search that NIX_ATTRS_JSON_FILE tells of; the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        file = os.environ.get("NIX_ATTRS_JSON_FILE")
        if file is None:
            raise SearchError("there is no NIX_ATTRS_JSON_FILE: this is the builder of a search")
        request = SearchRequest.parse(attributes(Path(file)))
        try:
            _search(request)
        except BaseException:
            shutil.rmtree(request.out, ignore_errors=True)
            raise
    except (RequestError, SearchError) as error:
        return _complain(error, 2)
    except (FormatError, MachineError, StreamError) as error:
        return _complain(error, 1)
    except OSError as error:
        return _complain(f"{error.filename or 'a file'}: {error.strerror}", 1)
    except Interrupted as interrupted:
        return _complain("interrupted", 128 + interrupted.number)
    return 0


def _search(request: SearchRequest) -> None:
    jobs = int(os.environ.get("NIX_BUILD_CORES") or 0) or os.cpu_count() or 1
    progress = _Progress(request.bounds.schedules)
    with Places(request.run, request.kernel) as places:
        search = Search(
            request.run,
            request.bounds,
            places,
            Conflicts(places, request.races),
            jobs=jobs,
            told=progress.told,
            seconds=request.seconds,
        )
        if request.shard is not None:
            found = search.run(reduce=False)
            request.out.mkdir()
            (request.out / "shard.cbor").write_bytes(report.dump(found.tried))
            return
        parts = [entry for part in request.parts for entry in report.undump(part / "shard.cbor")]
        found = search.run(before=parts)
    request.out.mkdir()
    made = summary(request, found)
    (request.out / "report.cbor").write_bytes(made.to_cbor())
    if made.verdict in ("same", "alone"):
        # For lib.check: a shell script can tell by it.
        (request.out / "clean").touch()
    for name, side, run in (
        ("failing", made.failing, found.failing),
        ("passing", made.passing, found.passing),
    ):
        if side is not None and run is not None:
            run.tape.write(request.out / f"{name}.trace", run.end)
            data = {"schedule": schedule.to_data(side.schedule), "timeLimit": side.time_limit}
            (request.out / f"{name}.json").write_text(json.dumps(data) + "\n")
    said = text.lines(made, request.out, {})
    (request.out / "report.txt").write_text("".join(f"{line}\n" for line in said))


def summary(request: SearchRequest, found: Found) -> report.Report:
    """The report of *found*."""
    run, bounds = request.run, request.bounds
    sides: dict[str, report.Side] = {}
    if found.reduced is not None:
        fixed = run.schedule
        for ended, perturbations in (
            (found.reduced.changed_run, found.reduced.changed),
            (found.reduced.unchanged_run, found.reduced.unchanged),
        ):
            name = "failing" if ended is found.failing else "passing"
            sides[name] = report.Side(
                schedule=schedule.ordered((*fixed, *perturbations)),
                time_limit=report.limit_of(
                    ended.outcome, ended.guest_time, run.time_limit, found.limit
                ),
                outcome=ended.outcome,
                outputs=ended.outputs,
                steps=ended.steps,
                trace=ended.tape.digest(),
                waiting=found.waiting if name == "failing" else (),
            )
    verdict: report.Verdict = "same"
    if sides:
        verdict = "differs"
    elif not found.baseline.outcome.success:
        verdict = "fails"
    elif not found.stretches:
        verdict = "alone"
    return report.Report(
        name=run.name,
        drv=run.drv,
        system=run.system,
        schedule=run.schedule,
        epoch=run.epoch,
        seed=run.seed,
        cores=run.cores,
        memory=run.memory,
        time_limit=run.time_limit,
        limit=found.limit,
        schedules=bounds.schedules,
        first=bounds.first,
        every=bounds.every,
        ignore_outputs=bounds.ignore_outputs,
        strategy=bounds.strategy,
        verdict=verdict,
        cut_short=found.cut_short,
        tried=found.tried,
        drawn=found.drawn,
        runs=found.reduced.runs if found.reduced else 0,
        deciding=found.deciding,
        analysis=found.analysis,
        explanation=found.explanation,
        odds=found.odds,
        failing=sides.get("failing"),
        passing=sides.get("passing"),
    )


class _Progress:
    """Says what was tried, in the build's log, and how fast it goes."""

    def __init__(self, schedules: int) -> None:
        log = os.environ.get("NIX_LOG_FD")
        self._log = int(log) if log else None
        self._schedules = schedules
        self._begin = time.monotonic()
        self._count = 0

    def told(self, tried: Tried) -> None:
        print(f"schedule {tried.number:3}: {tried.outcome}, {tried.steps:,} steps", flush=True)
        if not tried.number:
            self._begin = time.monotonic()
            return
        self._count += 1
        rate = self._count / max(time.monotonic() - self._begin, 0.001)
        self.phase(f"{self._count} of {self._schedules} schedules, {rate:.1f} a second")

    def phase(self, text: str) -> None:
        if self._log is not None:
            line = f"@nix {json.dumps({'action': 'setPhase', 'phase': text})}\n"
            os.write(self._log, line.encode())


def _complain(error: object, status: int) -> int:
    print(f"rewind: {error}", file=sys.stderr)
    return status


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # The next one shall not disturb the tidying up.
    signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
