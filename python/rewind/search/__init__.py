"""Searching for a schedule that changes a job's outcome (docs/search.md).

The builder of ``lib.search``, and a library: nothing here knows of Nix or of a terminal.

`request` is what a search is told; `machines` starts machines, from the boot snapshot or from a
keyframe, and takes keyframes; `positions` finds where a perturbation can matter, `generate` makes
schedules of that, `forks` runs them, `reduce` finds the position that decides; `engine` puts them
together, and `report` is what comes of it.

Imports: search → inspect, analysis, recorder → machine → formats.
"""


class SearchError(Exception):
    """The search cannot be made as it was asked for; the text is a sentence for the user."""
