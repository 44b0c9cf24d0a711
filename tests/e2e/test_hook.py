"""The post-build hook, started by Nix and by a nix-daemon, and the worker that does what it queues."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from conftest import Answer, Session, needs_own_store


@attrs.frozen
class Hook:
    """Settings with a queue of their own, and a cache."""

    session: Session
    place: Path

    @property
    def program(self) -> Path:
        return self.session.rewind_program.parent / "rewind-post-build-hook"

    @property
    def settings(self) -> Path:
        return self.place / "hook.json"

    def write(self, **settings: Any) -> None:
        data = {"queue": str(self.place / "queue"), **settings}
        self.settings.write_text(json.dumps(data))

    def build(self, job: str, *options: str, **environment: str) -> Answer:
        """Build a job, with the hook."""
        return self.session.run(
            *("nix", "build", "--no-link", self.session.job(job), *options),
            *("--option", "post-build-hook", str(self.program)),
            REWIND_HOOK=str(self.settings),
            **environment,
        )

    def hook(self, *words: str) -> Answer:
        """``rewind hook WORDS``."""
        return self.session.rewind("hook", *words, "--config", str(self.settings))


@pytest.fixture
def hook(session: Session, tmp_path: Path) -> Iterator[Hook]:
    made = Hook(session, tmp_path)
    assert made.program.exists()
    yield made


def test_what_is_built_is_recorded_compared_and_pushed(session: Session, hook: Hook) -> None:
    """From nix build to a cache that has the run; what does not opt in is left alone."""
    cache = hook.place / "cache"
    hook.write(names=[f"hooked-{session.mark}"], push=f"file://{cache}")
    for job in ("hooked", "unhooked"):
        answer = hook.build(job)
        assert answer.status == 0, str(answer)
    waiting = hook.hook("status", "--json").json["waiting"]
    assert [name.partition("-")[2] for name in waiting] == [f"hooked-{session.mark}"]
    answer = hook.hook("run", "--once")
    assert answer.status == 0 and f"hooked-{session.mark}: exited 0\n" in answer.out, str(answer)
    assert hook.hook("status").out == "nothing waits\n"
    (line,) = (hook.place / "queue" / "results.jsonl").read_text().splitlines()
    result = json.loads(line)
    assert result["differs"] == [] and result["outcome"] == {"kind": "exited", "value": 0}
    digits = Path(result["run"]).name.partition("-")[0]
    assert (cache / f"{digits}.narinfo").exists()


def test_an_attribute_asks_for_a_check(session: Session, hook: Hook) -> None:
    """Of a derivation that opts in by itself, and fails under another schedule."""
    hook.write(schedules=16)
    answer = hook.build("hookedRace")
    assert answer.status == 0, str(answer)
    answer = hook.hook("run", "--once")
    assert answer.status == 0 and "; check: differs" in answer.out, str(answer)


def test_the_hook_returns_at_once(session: Session, hook: Hook) -> None:
    """Nix waits for it; the figure is in the bench, and here that it does not work itself."""
    hook.write(all=True)
    drv = session.drv("hooked")
    begin = time.monotonic()
    done = session.run(str(hook.program), DRV_PATH=drv, REWIND_HOOK=str(hook.settings))
    assert done.status == 0 and not done.err, str(done)
    assert time.monotonic() - begin < 10
    assert len(hook.hook("status", "--json").json["waiting"]) == 1


@needs_own_store
def test_a_daemon_starts_it(session: Session, hook: Hook) -> None:
    """A real nix-daemon, with the hook in its settings; and by it the worker does its work.

    That is how the unit of the NixOS module is: it cannot write to the store itself.
    """
    secret, cache = hook.place / "secret", hook.place / "cache"
    secret.write_text(session.nix("key", "generate-secret", "--key-name", "hook-1"))
    hook.write(names=["daemon-*"], sign=str(secret), push=f"file://{cache}")
    socket = hook.place / "socket"
    environment = session.environment(
        NIX_CONFIG=f"post-build-hook = {hook.program}",
        NIX_DAEMON_SOCKET_PATH=str(socket),
        REWIND_HOOK=str(hook.settings),
    )
    daemon = subprocess.Popen(["nix-daemon"], env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not socket.exists() and time.monotonic() < end:
            time.sleep(0.05)
        answer = session.run(
            *("nix", "build", "--no-link", "--store", f"unix://{socket}"), session.job("daemonized")
        )
        assert answer.status == 0, str(answer)
        (name,) = hook.hook("status", "--json").json["waiting"]
        assert name.endswith(f"daemon-{session.mark}"), name
        answer = session.run(
            *(str(session.rewind_program), "hook", "run", "--once"),
            *("--config", str(hook.settings)),
            NIX_CONFIG=f"store = unix://{socket}",
        )
        assert answer.status == 0 and f"{name}: daemon-" in answer.out, str(answer)
    finally:
        daemon.terminate()
        daemon.wait(30)
    result = json.loads((hook.place / "queue" / "results.jsonl").read_text())
    digits = Path(result["run"]).name.partition("-")[0]
    assert "\nSig: hook-1:" in (cache / f"{digits}.narinfo").read_text()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("{", "can't be read"),
        ("[]", "is no JSON object"),
        ('{"colour": 1}', "colour is no setting"),
        ('{"queue": "/proc/nowhere"}', "/proc/nowhere"),
    ],
)
def test_bad_settings(hook: Hook, settings: str, says: str) -> None:
    hook.settings.write_text(settings)
    answer = hook.hook("retry")
    assert answer.status == 2 and says in answer.sentence, str(answer)


def test_by_hand(session: Session, hook: Hook) -> None:
    answer = session.run(str(hook.program))
    assert answer.status == 2 and "DRV_PATH is not set" in answer.err, str(answer)
