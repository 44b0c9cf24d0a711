"""How two runs ended, compared."""

from collections.abc import Iterator

import attrs

from rewind.formats.manifest import Manifest

NOT_MADE = "not made"


@attrs.frozen
class Difference:
    """Something that two runs do not have in common, with what it is in each."""

    what: str
    first: str
    second: str

    @property
    def in_words(self) -> tuple[str, str]:
        """What to say of each: of an output that the other one does not have, no more than that."""
        values = self.first, self.second
        if NOT_MADE not in values:
            return values
        first, second = (value if value == NOT_MADE else "made" for value in values)
        return first, second


def differences(first: Manifest, second: Manifest) -> Iterator[Difference]:
    """What of the outcome differs: how the job ended, and what of each output was made."""
    if first.outcome != second.outcome:
        yield Difference("outcome", str(first.outcome), str(second.outcome))
    for name in dict.fromkeys((*first.outputs, *second.outputs)):
        one, other = (manifest.outputs.get(name) for manifest in (first, second))
        hashes = [NOT_MADE if output is None else output.nar_hash for output in (one, other)]
        if hashes[0] != hashes[1]:
            yield Difference(name, *hashes)
