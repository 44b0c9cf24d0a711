"""A search that is spread over two builders, each with a store of its own."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from conftest import Session, needs_own_store

pytestmark = needs_own_store

_HOSTS = ("one", "two")


@pytest.fixture
def stores(session: Session) -> Iterator[dict[str, Path]]:
    """The roots of the builders' stores."""
    roots = {host: session.directory / f"builder-{host}" for host in _HOSTS}
    for root in roots.values():
        root.mkdir()
    yield roots
    for root in roots.values():
        # What is in a store may not be written.
        subprocess.run(["chmod", "-R", "u+w", str(root)], check=True)
        shutil.rmtree(root)


def spread(session: Session, way: str, machines: dict[str, str], **environment: str) -> None:
    """Make a search with *machines*, and hold it against one by a single derivation, here.

    :param way: which of the jobs' searches.
    :param machines: the URLs of the builders' stores, by name.
    """
    builders = " ; ".join(f"{url} x86_64-linux - 1 1" for url in machines.values())
    answer = session.run(
        *("nix", "build", "--no-link", "--print-out-paths", f"{session.jobs}#searches.{way}.two"),
        *("-L", "--max-jobs", "0", "--builders", builders),
        **environment,
    )
    assert answer.status == 0, str(answer)
    for host, url in machines.items():
        # Nix writes it with the slashes that it has left out.
        begin = re.escape(url.partition("?")[0]).replace("local", "local(://)?")
        assert re.search(rf"building '\S+-shard-\d\.drv' on '{begin}\?[^']*{host}", answer.err), (
            str(answer)
        )
    two = Path(answer.out.strip())
    one = Path(
        session.nix("build", "--no-link", "--print-out-paths", f"{session.jobs}#searches.{way}.one")
    )
    assert one != two
    assert {file.name for file in one.iterdir()} == {file.name for file in two.iterdir()}
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes(), file
    assert "exited" in (one / "report.txt").read_text()


def test_shards_on_two_builders(session: Session, stores: dict[str, Path]) -> None:
    """The report is that of a search by one, here; and nothing was searched here for it."""
    spread(session, "local", {host: f"local?root={root}" for host, root in stores.items()})


# sshd as root wants a user whose name it has built in, and a directory for it: both are there for
# it alone. And what it has started ends with it.
_SSHD = r"""
    { grep -v ^sshd: /etc/passwd; echo sshd:x:65533:65534::/run/sshd:/bin/false; } > passwd
    mount --bind passwd /etc/passwd
    mount -t tmpfs tmpfs /run
    mkdir /run/sshd
    exec "$0" -D -e -f sshd_config
"""


@contextlib.contextmanager
def sshd(session: Session, place: Path) -> Iterator[Path]:
    """A server of ssh on loopback as long as the ``with`` lasts, its keys and files in *place*.

    It gives a configuration of ssh in which all of `_HOSTS` are that server.
    """
    program = {name: session.program("openssh", name) for name in ("ssh", "sshd", "ssh-keygen")}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for key in ("host-key", "user-key"):
        made = session.run(
            program["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", str(place / key)
        )
        assert made.status == 0, str(made)
    (place / "known").write_text(f"[127.0.0.1]:{port} {(place / 'host-key.pub').read_text()}")
    (place / "ssh_config").write_text(
        f"Host {' '.join(_HOSTS)}\n"
        f"  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentitiesOnly yes\n"
        f"  IdentityFile {place / 'user-key'}\n  UserKnownHostsFile {place / 'known'}\n"
    )
    (place / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {place / 'host-key'}\nPidFile none\n"
        f"AuthorizedKeysFile {place / 'user-key.pub'}\nStrictModes no\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        f"SetEnv PATH={os.environ['PATH']}\n"
    )
    log = place / "log"
    with log.open("wb") as said:
        server = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
             "--mount-proc", "bash", "-euc", _SSHD, program["sshd"]],
            cwd=place, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        end = time.monotonic() + 30
        while f"listening on 127.0.0.1 port {port}" not in log.read_text():
            assert server.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield place / "ssh_config"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("scheme", ["ssh", "ssh-ng"])
def test_shards_on_two_builders_over_ssh(
    session: Session, stores: dict[str, Path], tmp_path: Path, scheme: str
) -> None:
    """The same, with builders that Nix reaches as it does those on other machines."""
    machines = {
        host: f"{scheme}://{host}?remote-store={quote(f'local?root={root}')}"
        for host, root in stores.items()
    }
    with sshd(session, tmp_path) as config:
        ssh = Path(session.program("openssh", "ssh")).parent
        spread(
            session, scheme, machines,
            NIX_SSHOPTS=f"-F {config}", PATH=f"{ssh}:{os.environ['PATH']}",
        )  # fmt: skip
