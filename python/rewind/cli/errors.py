"""What goes wrong, as a user sees it."""


class Failure(Exception):
    """Something that cannot be done; its text is the sentence that says so.

    *log* is what a program had to say before it failed, shown above the sentence.
    """

    def __init__(self, sentence: str, log: str = "") -> None:
        super().__init__(sentence)
        self.log = log


class Interrupted(BaseException):
    """A signal asked the program to end.

    Like KeyboardInterrupt it is no `Exception`: nothing but the program's end may handle it.
    """

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal
