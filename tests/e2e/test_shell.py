"""``rewind shell``: commands and a terminal in a fork of bank's run."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from conftest import Answer, Recorded, Session, descendants

MAKEFILE = Path(__file__).resolve().parents[2] / "examples" / "bank" / "Makefile"
LIMIT = 60
"""Seconds after which a shell is taken to hang."""


@pytest.fixture(scope="module")
def step(session: Session, bank: Recorded) -> str:
    """The step at which the second teller writes its receipt."""
    log = session.rewind("log", bank.hash, "--steps").out
    return next(line.split()[0] for line in log.splitlines() if "teller 2" in line)


@attrs.frozen
class Shell:
    """``rewind shell`` at a step of bank."""

    session: Session
    run: Recorded
    step: str

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        rewind = str(self.session.rewind_program)
        return [rewind, "shell", self.run.hash, self.step, *arguments]

    def __call__(self, *arguments: str, data: bytes = b"") -> Answer:
        """Run it, with *data* as its input."""
        command = self.command(*arguments)
        done = subprocess.run(
            command,
            env=self.session.environment(),
            cwd=self.session.directory,
            input=data,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
        return Answer(command, done.returncode, out, err)

    def out(self, *arguments: str, data: bytes = b"") -> str:
        """What it writes; it must work, and complain of nothing."""
        answer = self(*arguments, data=data)
        assert (answer.status, answer.err) == (0, ""), str(answer)
        return answer.out


@pytest.fixture(scope="module")
def shell(session: Session, bank: Recorded, step: str) -> Shell:
    """It at the second teller's receipt."""
    return Shell(session, bank, step)


def test_view(shell: Shell) -> None:
    """Files, environment, user and working directory are those of the process on the CPU."""
    text = "pwd; id -u; id -g; cat Makefile; echo $name; umask; echo ${BASH_VERSION:-no bash}"
    out = shell.out("-c", text)
    head, _, rest = out.partition(MAKEFILE.read_text())
    assert head == "/build/source\n1000\n100\n"
    assert rest.startswith("bank-0.1.0\n0022\n5.")


def test_command_and_status(shell: Shell) -> None:
    """A command is executed as it is; its exit status and streams come back."""
    assert shell("--", "sh", "-c", "exit 7").status == 7
    assert shell("--", "sh", "-c", "kill -TERM $$").status == 128 + signal.SIGTERM
    answer = shell("--", "no-such-program")
    assert answer.status == 127
    assert "executing 'no-such-program': No such file or directory" in answer.err
    answer = shell("-c", "echo out; echo err >&2; yes > /dev/stderr & sleep 0.1")
    assert (answer.status, answer.out) == (0, "out\n")
    assert answer.err.startswith("err\ny\n")


def test_input_is_binary(shell: Shell) -> None:
    """What goes in comes out, more than any buffer on the way holds, to its end and no further."""
    data = bytes(range(256)) * 3000
    answer = shell("--", "cat", data=data)
    assert answer.status == 0, str(answer)
    assert answer.out.encode(errors="surrogateescape") == data


def test_shell_in_a_pipe(shell: Shell) -> None:
    """Without a terminal a shell does what it reads."""
    assert shell.out(data=b"echo $((6 * 7))\necho $0\nexit\n").startswith("42\n")


def test_the_job_stands_still(shell: Shell) -> None:
    """Its processes are there, as they were, and stopped; with --run they go on."""
    text = "for p in /proc/[0-9]*; do echo $(sed -n 's/^\\(Name\\|State\\):.//p' $p/status); done"
    lines = shell.out("-c", text).splitlines()
    assert "bank T (stopped)" in lines
    assert [line for line in lines if line.startswith(("bash ", "make ", "bank "))] != []
    assert all(
        line.endswith("T (stopped)") for line in lines if line.startswith(("make ", "bank "))
    )
    wait = "while [ -e /proc/%s ]; do sleep 0.1; done; echo over"
    bank = shell.out("-c", "grep -l '^Name:.bank$' /proc/[0-9]*/status").split("/")[2]
    assert shell.out("--run", "-c", wait % bank) == "over\n"


def test_pid(shell: Shell) -> None:
    """The view of another process: the builder's environment has no PREFIX of make's."""
    assert shell.out("--pid", "1", "-c", "pwd") == "/build/source\n"
    for pid, sentence in (("99", "there is no process 99"), ("2", "process 2 has ended")):
        answer = shell("--pid", pid, "--", "true")
        assert (answer.status, answer.out) == (2, "")
        assert sentence in answer.sentence


def test_with(session: Session, shell: Shell) -> None:
    """Programs that the job has not, and all that it had before."""
    strace = f"path:{session.nixpkgs}#strace"
    text = "strace -o t true; tail -n 1 t; ls -d /nix/store/*-bash-* >&2"
    answer = shell("--with", strace, "-c", text)
    assert answer.status == 0, str(answer)
    assert answer.out == "+++ exited with 0 +++\n"
    assert "-bash-" in answer.err
    answer = shell("--with", "path:/no-such-flake#x", "--", "true")
    assert (answer.status, answer.out) == (2, "")
    assert "--with path:/no-such-flake#x: " in answer.sentence


def test_build_again(shell: Shell) -> None:
    """The failing test can be made and run again, in the fork alone."""
    out = shell.out(
        "-c", "make -s clean >/dev/null 2>&1; rm -f bank; make -s bank && ./bank | tail -n 1"
    )
    assert out.startswith("balance ")
    assert "bank\n" in shell.out("--", "ls")


def test_idle_time(shell: Shell) -> None:
    """An hour's sleep takes no time, and one that never ends waits for its user."""
    start = time.monotonic()
    out = shell.out("-c", "date +%s; sleep 3600; date +%s").split()
    assert 3600 <= int(out[1]) - int(out[0]) <= 3605
    assert time.monotonic() - start < 30


def test_bad_questions(shell: Shell, session: Session, bank: Recorded) -> None:
    for arguments, sentence in (
        (("99999999", "--", "true"), "there is no step 99,999,999"),
        (("100", "-c", "true", "--", "true"), "there is -c and a command"),
    ):
        answer = session.rewind("shell", bank.hash, *arguments)
        assert (answer.status, answer.out) == (2, "")
        assert sentence in answer.sentence


# --- a terminal


class Terminal:
    """A shell on a pseudo-terminal, and what is seen there."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            shell.command(*arguments),
            env=shell.session.environment(TERM="vt100"),
            cwd=shell.session.directory,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.set_blocking(self.master, False)
        self.seen = ""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> re.Match[str]:
        """Wait for *pattern* to be seen; what was seen up to there is forgotten."""
        end = time.monotonic() + LIMIT
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < end, f"no {pattern} in {self.seen!r}"
            try:
                self.seen += os.read(self.master, 4096).decode(errors="replace")
            except BlockingIOError:
                assert self.process.poll() is None, f"it ended: {self.seen!r}"
                time.sleep(0.02)
        self.seen = self.seen[found.end() :]
        return found

    def ended(self) -> int:
        """Wait for its end; the exit status. The terminal is as it was."""
        status = self.process.wait(LIMIT)
        assert termios.tcgetattr(self.slave) == self.before
        return status


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Terminal]:
    """A shell on a terminal."""
    made = Terminal(shell)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()
    os.close(made.master)
    os.close(made.slave)


def test_terminal(terminal: Terminal) -> None:
    """A prompt, keys, Ctrl-C, the window's size as it changes, and an exit status."""
    terminal.until(r"[$#] ")
    terminal.type("tty; stty size; echo $TERM\r")
    terminal.until(r"/dev/pts/\d+\r\n30 100\r\nvt100\r\n")
    terminal.type("yes\r")
    terminal.until("yes\r\ny\r\ny\r\n")
    terminal.type("\x03")
    terminal.until(r"[$#] ")
    terminal.type("echo status $?\r")
    terminal.until("status 130\r\n")
    fcntl.ioctl(terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 101, 0, 0))
    terminal.process.send_signal(signal.SIGWINCH)
    time.sleep(0.3)
    terminal.type("stty size\r")
    terminal.until("31 101\r\n")
    terminal.type("exit 3\r")
    assert terminal.ended() == 3


def test_waiting_costs_nothing(terminal: Terminal) -> None:
    """While nobody presses a key the guest's clock stands, and the host's CPU is idle."""
    terminal.until(r"[$#] ")
    terminal.type("date +now=%s\r")
    before = int(terminal.until(r"now=(\d+)\r\n")[1])
    (machine,) = (one for one in descendants(terminal.process.pid) if "qemu" in one.command)
    used = _ticks(machine.pid)
    time.sleep(3)
    assert _ticks(machine.pid) - used < 30
    terminal.type("date +now=%s\r")
    assert int(terminal.until(r"now=(\d+)\r\n")[1]) - before <= 5
    terminal.type("exit\r")
    assert terminal.ended() == 0


def _ticks(pid: int) -> int:
    """The CPU time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_machine_is_left(terminal: Terminal, number: signal.Signals) -> None:
    """Who is killed takes the machine along; the terminal is as it was, unless by SIGKILL."""
    terminal.until(r"[$#] ")
    processes = descendants(terminal.process.pid)
    assert any("qemu" in one.command for one in processes)
    terminal.process.send_signal(number)
    if number == signal.SIGKILL:
        assert terminal.process.wait(LIMIT) == -number
    else:
        assert terminal.ended() == 128 + number
    end = time.monotonic() + 10
    while any(one.alive for one in processes):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_leaving_one_that_hangs(terminal: Terminal) -> None:
    terminal.until(r"[$#] ")
    terminal.type("trap '' INT; sleep 1000000000 & wait\r")
    time.sleep(0.5)
    terminal.type("\x1d\x1d\x1d")
    assert terminal.ended() == 0
