"""A project for the check of buildPythonApplication."""

import shutil

import click
import pynixutil
import qemu.qmp


@click.command()
def main() -> None:
    """Say which modules there are, and where a tool is that only the wrapper knows."""
    click.echo(f"{pynixutil.__name__} {qemu.qmp.__name__} {shutil.which('jq')}")
