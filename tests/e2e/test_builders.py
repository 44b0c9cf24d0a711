"""A search that is spread over two builders, each with a store of its own."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Session, needs_own_store


@pytest.fixture
def builders(session: Session) -> Iterator[list[Path]]:
    """The roots of two stores, in which Nix's build hook builds as on other machines."""
    roots = [session.directory / name for name in ("builder-1", "builder-2")]
    for root in roots:
        root.mkdir()
    yield roots
    for root in roots:
        # What is in a store may not be written.
        subprocess.run(["chmod", "-R", "u+w", str(root)], check=True)
        shutil.rmtree(root)


@needs_own_store
def test_shards_on_two_builders(session: Session, builders: list[Path]) -> None:
    """The report is that of a search by one, here; and nothing was searched here for it."""
    machines = " ; ".join(f"local?root={root} x86_64-linux - 1 1" for root in builders)
    answer = session.run(
        *("nix", "build", "--no-link", "--print-out-paths", f"{session.jobs}#searches.two", "-L"),
        *("--max-jobs", "0", "--builders", machines),
    )
    assert answer.status == 0, str(answer)
    for root in builders:
        assert re.search(rf"building '\S+-shard-\d\.drv' on 'local://\?root={root}'", answer.err), (
            str(answer)
        )
    two = Path(answer.out.strip())
    one = Path(
        session.nix("build", "--no-link", "--print-out-paths", f"{session.jobs}#searches.one")
    )
    assert one != two
    assert {file.name for file in one.iterdir()} == {file.name for file in two.iterdir()}
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes(), file
    assert "exited" in (one / "report.txt").read_text()
