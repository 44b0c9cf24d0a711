"""The machine: what QEMU is started with, and its boot snapshot."""


class MachineError(Exception):
    """The machine could not be run; the text is a sentence for the user."""
