"""Commands in a root that has nothing to do with Nix: a directory, tarballs, an image."""

import json
import shutil
import tarfile
from pathlib import Path

import attrs
import pytest
from conftest import Answer, Session

SYMLINKS = ("sh", "cat", "id", "ls", "mkdir", "rm", "touch")


def good(answer: Answer, status: int = 0) -> Answer:
    """*answer*, of a command that ended as it should."""
    assert answer.status == status, str(answer)
    return answer


@attrs.frozen
class Roots:
    """The same root in all its forms."""

    session: Session
    directory: Path

    @property
    def tarball(self) -> Path:
        """As `docker export` writes one; the others are beside it."""
        return self.directory.with_name("root.tar")

    def run(self, root: Path, *words: str) -> Answer:
        """``rewind run`` in *root*, with a name that is the session's."""
        name = self.session.name("root")
        return self.session.rewind("run", "--root", str(root), "--name", name, *words)

    def hash(self, root: Path, *words: str) -> str:
        """The hash of that run."""
        return good(self.run(root, *words)).out.split()[0]

    def log(self, root: Path, script: str, *options: str) -> str:
        """What *script* writes there."""
        run = self.hash(root, *options, "--", "sh", "-c", script)
        return good(self.session.rewind("log", run)).out


def owned(header: tarfile.TarInfo) -> tarfile.TarInfo:
    """As in a container: somebody else's, and of some day."""
    header.uid = header.gid = 33 if header.name.endswith("notes") else 0
    header.mtime = 1_000_000_000
    return header


@pytest.fixture(scope="session")
def roots(session: Session) -> Roots:
    directory = session.directory / "root"
    for name in ("bin", "src", "etc"):
        (directory / name).mkdir(parents=True)
    shell = Path(session.program("shell", "busybox"))
    shutil.copy(shell, directory / "bin/busybox")
    for name in SYMLINKS:
        (directory / "bin" / name).symlink_to("busybox")
    shutil.copy(session.program("tally", "tally"), directory / "src/tally")
    shutil.copy(Path(session.jobs, "programs/tally.c"), directory / "src/tally.c")
    (directory / "etc/hosts").touch()
    (directory / "src/notes").write_text("one\n")
    found = Roots(session, directory)
    with tarfile.open(found.tarball, "w") as archive:
        archive.add(directory, ".", filter=owned)
    for suffix, mode in (("gz", "w:gz"), ("xz", "w:xz")):
        with tarfile.open(f"{found.tarball}.{suffix}", mode) as archive:
            archive.add(directory, ".", filter=owned)
    return found


def test_what_a_command_finds(roots: Roots) -> None:
    text = roots.log(
        roots.tarball,
        "id -u; pwd; echo $PATH $HOME $A; ls -ln /src/notes; cat /etc/hosts; ls -d /tmp /dev/null",
        *("--cwd", "/src", "--env", "A=b c"),
    )
    lines = text.splitlines()
    assert lines[0] == "0"
    assert lines[1] == "/src"
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert lines[2] == f"{path} /root b c"
    assert lines[3].split()[2:4] == ["33", "33"]
    assert "2001" in lines[3]
    assert lines[4:6] == ["127.0.0.1 localhost", "::1 localhost"]
    assert " ".join(lines[6:]).split() == ["/dev/null", "/tmp"]


def test_what_is_written_is_seen_at_a_step(roots: Roots) -> None:
    """By a look at the run, in which the root is an overlay of the image."""
    script = "echo two >> /src/notes; rm /bin/ls; echo x > /new; cat /src/notes; cat /new"
    run = roots.hash(roots.tarball, "--", "sh", "-c", script)
    steps = json.loads(good(roots.session.rewind("show", run, "--json")).out)["steps"]
    # When the last cat runs, all is done.
    last = str(steps - 20)
    assert good(roots.session.rewind("cat", run, last, "/src/notes")).out == "one\ntwo\n"
    assert good(roots.session.rewind("cat", run, last, "/new")).out == "x\n"
    assert "/bin/ls" not in good(roots.session.rewind("ls-files", run, last, "/bin")).out
    assert "/bin/id -> busybox" in good(roots.session.rewind("ls-files", run, last, "/bin")).out
    assert good(roots.session.rewind("cat", run, "10", "/src/notes")).out == "one\n"
    # The directory of the host is as it was.
    assert (roots.directory / "src/notes").read_text() == "one\n"


def test_same_content_is_the_same_run(roots: Roots) -> None:
    words = ("--", "/src/tally")
    run = roots.hash(roots.tarball, *words)
    for suffix in ("gz", "xz"):
        assert roots.hash(Path(f"{roots.tarball}.{suffix}"), *words) == run
    copy = roots.session.directory / "copy"
    shutil.copytree(roots.directory, copy, symlinks=True)
    of_directory = roots.hash(roots.directory, *words)
    assert roots.hash(copy, *words) == of_directory != run
    manifest = good(roots.session.rewind("show", of_directory, "--json")).json
    assert manifest["outcome"] == {"kind": "exited", "value": 0}
    good(roots.session.rewind("replay", of_directory))


def test_a_search_finds_the_race(roots: Roots) -> None:
    answer = roots.session.rewind(
        *("check", "--root", str(roots.directory), "--name", roots.session.name("root-check")),
        *("--cwd", "/src", "--", "./tally"),
    )
    good(answer, 1)
    assert "in work (tally.c:" in answer.out
    failing = next(
        line.split()[-1] for line in answer.out.splitlines() if line.startswith("failing  exited 1")
    )
    where = next(line for line in answer.out.splitlines() if line.startswith("rewind where "))
    found = good(roots.session.rewind(*where.split()[1:])).out
    # Its source, from the root.
    assert "#0 work (tally.c:" in found
    assert "total = seen + 1;" in found
    assert good(roots.session.rewind("log", failing)).out != "2000\n"


def test_a_search_around_a_run(roots: Roots) -> None:
    run = roots.hash(roots.tarball, "--cwd", "/src", "--", "./tally")
    answer = good(roots.session.rewind("check", "--run", run), 1)
    assert "decides it" in answer.out


def test_an_image_is_a_root(roots: Roots) -> None:
    expression = (
        '{ root }: (import (builtins.getEnv "CHECKOUT" + "/lib") { pkgs = import'
        ' (builtins.getEnv "NIXPKGS") { config = { }; overlays = [ ]; }; }).rootImage root'
    )
    image = roots.session.run(
        *("nix", "build", "--impure", "--no-link", "--print-out-paths", "--expr", expression),
        *("--arg", "root", str(roots.tarball)),
        CHECKOUT=str(roots.session.checkout),
        NIXPKGS=str(roots.session.nixpkgs),
    )
    path = Path(good(image).out.strip())
    assert roots.hash(path, "--", "/src/tally") == roots.hash(roots.tarball, "--", "/src/tally")


@pytest.mark.parametrize(
    ("root", "words", "sentence"),
    [
        ("nowhere", ("--", "sh"), "No such file or directory"),
        ("root/src/tally.c", ("--", "sh"), "is no tarball, or is damaged"),
        ("short.tar", ("--", "sh"), "is damaged: unexpected end of data"),
        ("root.tar", ("--", "nothing"), "has no nothing on its PATH"),
        ("root.tar", ("--", "/src/notes"), "can't be executed"),
        ("root.tar", ("--cwd", "/nowhere", "--", "sh"), "has no directory /nowhere"),
        ("root.tar", (), "there is no command"),
        ("root.tar", ("--env", "X", "--", "sh"), "--env X is no NAME=VALUE"),
    ],
)
def test_bad_input(roots: Roots, root: str, words: tuple[str, ...], sentence: str) -> None:
    place = roots.session.directory
    data = roots.tarball.read_bytes()
    (place / "short.tar").write_bytes(data[: len(data) // 2 // 512 * 512])
    before = roots.session.traces()
    answer = good(roots.run(place / root, *words), 2)
    assert sentence in answer.sentence
    assert answer.err.count("\n") == 1
    assert roots.session.traces() == before


def test_options_without_a_root(session: Session) -> None:
    answer = good(session.rewind("check", "--cwd", "/", session.job("lines")), 2)
    assert answer.sentence == "rewind: --cwd and --env are for a command in a root (--root)"
    answer = good(session.rewind("run", "true"), 2)
    assert "--root DIR|TARBALL|IMAGE" in answer.sentence
