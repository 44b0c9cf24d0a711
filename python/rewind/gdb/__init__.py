"""gdb on a run: a server of gdb's remote protocol whose program is a process of the run.

gdb talks to a *target* here that stands somewhere in time, and can be taken elsewhere. Nothing in
it can be changed: a run is what happened. So all of gdb's commands that go on come down to one
question: what is the first, or the last, of some places in the run after, or before, this one?
(`rewind.replay` answers it.) "Step" is "where this thread executes its next instruction", and
"reverse-continue" is "the last time before now that a breakpoint's instruction was executed, or
a watched variable written".

* `packets`: the protocol's lines.
* `registers`: x86-64's registers as gdb wants them.
* `session`: where in time we are, and going elsewhere.
* `server`: what each packet means.
* `files`: the program, its libraries and its sources, for gdb to read.

The protocol is described in gdb's manual, appendix "GDB Remote Serial Protocol".
"""
