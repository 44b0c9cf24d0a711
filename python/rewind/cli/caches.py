"""What binary caches say of a store path: its .narinfo, and nothing else of them."""

import base64
import http.client
import netrc
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs

from rewind.formats import nixbase32

TIMEOUT = 5
"""Seconds to wait for a cache."""
_MAX_BYTES = 1 << 20


@attrs.frozen
class Answer:
    """What the cache *url* says of a path.

    *nar_hash* is ``sha256:`` and Nix's base 32, or None if the cache does not have the path;
    *problem* says why there is no answer.
    """

    url: str
    nar_hash: str | None = None
    problem: str | None = None


def normal_hash(text: str) -> str:
    """A SHA-256 in any of Nix's forms, as ``sha256:`` and Nix's base 32.

    :raises ValueError: if it is in none of them.
    """
    if text.startswith("sha256-"):
        return nixbase32.sha256(base64.b64decode(text[7:], validate=True))
    algorithm, _, digits = text.rpartition(":")
    if algorithm != "sha256":
        raise ValueError(f"{text!r} is no SHA-256")
    if len(digits) == 64:
        return nixbase32.sha256(bytes.fromhex(digits))
    return nixbase32.sha256(nixbase32.decode(digits))


class _Unanswered(Exception):
    """Why a cache gives no answer."""


@attrs.frozen
class Caches:
    """The HTTP binary caches that Nix substitutes from."""

    urls: tuple[str, ...]
    netrc_file: Path | None = None
    certificates: Path | None = None
    """A file of certificates to trust instead of the system's."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Caches":
        """Those of Nix's settings."""
        urls = (url.partition("?")[0].rstrip("/") for url in config.get("substituters") or ())
        netrc_file = config.get("netrc-file")
        certificates = config.get("ssl-cert-file")
        return cls(
            tuple(dict.fromkeys(url for url in urls if url.startswith(("http://", "https://")))),
            Path(netrc_file) if netrc_file else None,
            Path(certificates) if certificates else None,
        )

    def ask(self, paths: Iterable[str]) -> dict[str, list[Answer]]:
        """What each cache says of each store path, in the caches' order."""
        wanted = list(paths)
        if not self.urls or not wanted:
            return {path: [] for path in wanted}
        with ThreadPoolExecutor(min(16, len(wanted) * len(self.urls))) as pool:
            jobs = {
                path: [pool.submit(self._ask, url, path) for url in self.urls] for path in wanted
            }
            return {path: [job.result() for job in found] for path, found in jobs.items()}

    def ping(self) -> dict[str, str | None]:
        """Whether each cache answers: None, or why not."""
        if not self.urls:
            return {}
        with ThreadPoolExecutor(min(16, len(self.urls))) as pool:
            return dict(zip(self.urls, pool.map(self._ping, self.urls), strict=True))

    def _ping(self, url: str) -> str | None:
        try:
            found = self._get(url, "nix-cache-info")
        except _Unanswered as error:
            return str(error)
        return "it has no nix-cache-info" if found is None else None

    def _ask(self, url: str, path: str) -> Answer:
        try:
            found = self._get(url, f"{Path(path).name[:32]}.narinfo")
            return Answer(url, None if found is None else _nar_hash(found))
        except (_Unanswered, ValueError) as error:
            return Answer(url, problem=str(error))

    def _get(self, url: str, name: str) -> bytes | None:
        """The cache's file *name*, or None if it has none.

        :raises _Unanswered: if it does not say.
        """
        request = urllib.request.Request(f"{url}/{name}")
        try:
            credentials = self._credentials(url)
            if credentials:
                # Not to wherever the cache may send us.
                request.add_unredirected_header("Authorization", f"Basic {credentials}")
            context = None
            if url.startswith("https:"):
                context = ssl.create_default_context(
                    cafile=str(self.certificates) if self.certificates else None
                )
            with urllib.request.urlopen(request, timeout=TIMEOUT, context=context) as response:
                data: bytes = response.read(_MAX_BYTES)
                return data
        except urllib.error.HTTPError as error:
            error.close()
            # 403 is what a bucket without the right to list says of what it does not have.
            if error.code in (403, 404, 410):
                return None
            raise _Unanswered(f"HTTP {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise _Unanswered(_reason(error.reason)) from None
        except http.client.HTTPException as error:
            raise _Unanswered(f"it does not speak HTTP: {error!r}") from None
        except (OSError, ValueError, netrc.NetrcParseError) as error:
            raise _Unanswered(_reason(error)) from None

    def _credentials(self, url: str) -> str | None:
        parts = urllib.parse.urlsplit(url)
        if parts.username is not None:
            name, password = parts.username, parts.password or ""
        elif self.netrc_file is not None and self.netrc_file.exists():
            found = netrc.netrc(str(self.netrc_file)).authenticators(parts.hostname or "")
            if found is None:
                return None
            name, password = found[0], found[2] or ""
        else:
            return None
        return base64.b64encode(f"{name}:{password}".encode()).decode()


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def _nar_hash(data: bytes) -> str:
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == "NarHash":
            return normal_hash(value.strip())
    raise ValueError("its narinfo has no NarHash")
