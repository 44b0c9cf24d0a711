"""What a trace means: where two runs part, which task could run when.

Nothing here asks Nix or talks to a person: it imports `rewind.formats` alone, and so the command
line and the search can both use it.
"""
