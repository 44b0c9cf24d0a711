"""What the kernel has put in order: vector clocks over tasks, of a trace's steps.

A task knows all that another one did up to a step if something had to come in between: it was made
by it, has waited for its end, was woken by it, or has got a message from it. Who has ended and was
waited for is known to whoever knows of the waiting: clocks have entries of tasks that live, and few
more, however many processes a build starts.
"""

import attrs

PRUNE = 64
"""A clock that is larger is looked through for what others of its entries say as well."""


@attrs.frozen(eq=False)
class Who:
    """What a task was when it did something; see `rewind.analysis.tasks.Task`."""

    pid: int
    tid: int
    program: str
    arguments: tuple[str, ...]
    exec_index: int


@attrs.define(eq=False)
class Actor:
    """A task, and what it knows of others."""

    who: Who
    clock: "dict[Actor, int]" = attrs.field(factory=dict, repr=False)
    """Up to which step it knows all of others."""
    joined: "tuple[Actor, int] | None" = attrs.field(default=None, repr=False)
    """Who has waited for its end, and at which step."""

    def knows(self, other: "Actor", step: int) -> bool:
        """Whether what *other* did at *step* has come before all that this one does now."""
        if other is self:
            return True
        while self.clock.get(other, -1) < step:
            if other.joined is None:
                return False
            other, step = other.joined
            if other is self:
                return True
        return True

    def learn(self, clock: "dict[Actor, int]") -> None:
        """Take over what *clock* knows."""
        mine = self.clock
        for other, step in clock.items():
            if mine.get(other, -1) < step:
                mine[other] = step
        mine.pop(self, None)
        if len(mine) > PRUNE:
            self._prune()

    def tell(self, step: int) -> "dict[Actor, int]":
        """What others know that get a message that it sends at *step*."""
        return {**self.clock, self: step}

    def join(self, other: "Actor", step: int) -> None:
        """It has waited for the end of *other*, at *step*."""
        self.learn(other.clock)
        self.clock.pop(other, None)
        other.joined = (self, step)
        other.clock = {}

    def _prune(self) -> None:
        for other in list(self.clock):
            step = self.clock.pop(other)
            if not self.knows(other, step):
                self.clock[other] = step
