"""Binary caches, which are a server of this process."""

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

from rewind.cli import caches
from rewind.cli.caches import Answer, Caches, normal_hash

DIGITS = "0mdqa9w1p6cmli6976v4wi0sw9r4p5prkj7lzfd1877wk11c9c73"
HASH = f"sha256:{DIGITS}"
PATH = "/nix/store/9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k-bank"
INFO = "/9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k.narinfo"


@attrs.define
class Server:
    """Answers each path with (status, body, headers), and remembers what it was asked."""

    url: str = ""
    answers: dict[str, tuple[int, str, dict[str, str]]] = attrs.field(factory=dict)
    asked: list[tuple[str, str | None]] = attrs.field(factory=list)
    waits: threading.Event | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append((self.path, self.headers.get("Authorization")))
            if made.waits is not None:
                made.waits.wait(10)
            status, body, headers = made.answers.get(self.path, (404, "", {}))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    if made.waits is not None:
        made.waits.set()
    http.shutdown()
    thread.join()
    http.server_close()


def ask(server: Server, **options: Path) -> Answer:
    (answer,) = Caches((server.url,), **options).ask([PATH])[PATH]
    return answer


def test_found(server: Server) -> None:
    server.answers[INFO] = 200, f"StorePath: {PATH}\nNarHash: {HASH}\nNarSize: 5\n", {}
    assert ask(server) == Answer(server.url, HASH)
    assert server.asked == [(INFO, None)]


@pytest.mark.parametrize("status", [403, 404])
def test_absent(server: Server, status: int) -> None:
    server.answers[INFO] = status, "", {}
    assert ask(server) == Answer(server.url)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, "", "HTTP 500"),
        (401, "", "HTTP 401"),
        (200, "hello", "no NarHash"),
        (200, "NarHash: sha256:xyz\n", "base 32"),
        (200, "NarHash: md5:00\n", "no SHA-256"),
    ],
)
def test_problem(server: Server, status: int, body: str, problem: str) -> None:
    server.answers[INFO] = status, body, {}
    answer = ask(server)
    assert answer.nar_hash is None
    assert problem in (answer.problem or "")


def test_no_server() -> None:
    (answer,) = Caches(("http://127.0.0.1:9",)).ask([PATH])[PATH]
    assert answer.problem == "Connection refused"


def test_slow(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "TIMEOUT", 0.1)
    server.waits = threading.Event()
    assert ask(server).problem == "no answer within 0.1 s"


def test_credentials(server: Server, tmp_path: Path) -> None:
    """They come from the netrc file, and do not go along when the cache sends us elsewhere."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    server.answers[INFO] = 302, "", {"Location": f"{server.url}/else"}
    server.answers["/else"] = 200, f"NarHash: {HASH}\n", {}
    assert ask(server, netrc_file=netrc).nar_hash == HASH
    header = "Basic " + base64.b64encode(b"me:secret").decode()
    assert server.asked == [(INFO, header), ("/else", None)]


def test_netrc_of_others(server: Server, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine other login me password secret\n")
    ask(server, netrc_file=tmp_path / "netrc")
    ask(server, netrc_file=tmp_path / "missing")
    assert [header for _, header in server.asked] == [None, None]


def test_damaged_netrc(server: Server, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machin 127.0.0.1\n")
    assert "bad toplevel token" in (ask(server, netrc_file=tmp_path / "netrc").problem or "")


def test_ping(server: Server) -> None:
    server.answers["/nix-cache-info"] = 200, "StoreDir: /nix/store\n", {}
    other = "http://127.0.0.1:9"
    assert Caches((server.url, other)).ping() == {server.url: None, other: "Connection refused"}


def test_from_config() -> None:
    """Only what is HTTP, each once, without parameters."""
    made = Caches.from_config(
        {
            "substituters": [
                "https://a/?priority=10",
                "file:///x",
                "https://a",
                "http://b",
                "s3://c",
            ],
            "netrc-file": "/etc/nix/netrc",
            "ssl-cert-file": "",
        }
    )
    assert made == Caches(("https://a", "http://b"), Path("/etc/nix/netrc"), None)


def test_nothing_to_ask() -> None:
    assert Caches(()).ask([PATH]) == {PATH: []}
    assert Caches(("http://127.0.0.1:9",)).ask([]) == {}


@pytest.mark.parametrize(
    "text",
    [
        HASH,
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_normal_hash(text: str) -> None:
    assert normal_hash(text) == HASH


@pytest.mark.parametrize(
    "text", ["", "x", "sha256:", "sha256-", "sha256-a", "md5:00", "sha1:" + DIGITS]
)
def test_no_hash(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        normal_hash(text)
