"""The files of a run: one module reads and writes each format."""


class FormatError(Exception):
    """A file that cannot be read as what it should be; its text is a sentence for the user."""
