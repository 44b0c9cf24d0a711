"""The commands of ``rewind``: a module each, imported when it is called.

A module ``NAME`` has a click command called ``command``. `rewind.cli` lists them.
"""
