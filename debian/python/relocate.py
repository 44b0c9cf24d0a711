"""Make Debian's Python independent of the system it is meant for: relocate.py TREE.

Debian's pip and certifi insist at start on certificates in /etc/ssl, and ensurepip looks for
its wheels in an absolute directory. They get the tree's own.
"""

import pathlib
import sys
import zipfile

SYSTEM_CERTIFICATES = b"/etc/ssl/certs/ca-certificates.crt"
SYSTEM_WHEELS = "/usr/share/python-wheels"


def replace_in_wheel(wheel: pathlib.Path, old: bytes, new: bytes) -> None:
    """Replace `old` in the Python files of a wheel, and rewrite it the same on every machine."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in files:
            entry = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = info.external_attr
            entry.compress_type = zipfile.ZIP_DEFLATED
            if info.filename.endswith(".py"):
                content = content.replace(old, new)
            archive.writestr(entry, content)


def main(tree: pathlib.Path) -> None:
    usr = tree / "usr"
    bundle = usr / "share" / "ca-bundle.crt"
    certificates = sorted((usr / "share" / "ca-certificates" / "mozilla").glob("*.crt"))
    bundle.write_bytes(b"".join(path.read_bytes() for path in certificates))

    wheels = usr / "share" / "python-wheels"
    for wheel in wheels.glob("pip-*.whl"):
        replace_in_wheel(wheel, SYSTEM_CERTIFICATES, str(bundle).encode())
    for path in usr.glob("lib/python3.*/_sysconfigdata*.py"):
        if path.is_symlink():
            continue
        path.write_text(path.read_text().replace(SYSTEM_WHEELS, str(wheels)))


main(pathlib.Path(sys.argv[1]))
