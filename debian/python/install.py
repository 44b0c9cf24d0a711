"""Install a wheel: install.py PREFIX SITE-PACKAGES INTERPRETER WHEEL.

Debian's sysconfig would put it into PREFIX/local/lib/python3/dist-packages.
"""

import compileall
import pathlib
import py_compile
import sys

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile


def main(prefix: str, site_packages: str, interpreter: str, wheel: str) -> None:
    site = f"{prefix}/{site_packages}"
    scheme = {
        "purelib": site,
        "platlib": site,
        "scripts": f"{prefix}/bin",
        "data": prefix,
        "headers": f"{prefix}/include",
    }
    destination = SchemeDictionaryDestination(scheme, interpreter=interpreter, script_kind="posix")
    with WheelFile.open(pathlib.Path(wheel)) as source:
        install(source, destination, {"INSTALLER": b"nix"})
    # no times in the compiled files
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(site, quiet=1, invalidation_mode=mode)


main(*sys.argv[1:])
