"""Looking into a stopped machine: its tasks, where each of them is, and its files.

Nothing runs in the guest. What is read is the guest's memory, and the registers of its CPU:

- `kernel` reads the kernel's structures, by drgn and vmlinux's DWARF.
- `tasks` says what tasks there are and what those that wait are waiting for.
- `process` reads a process's memory and unwinds its threads' stacks, by drgn once more.
- `files` and `erofs` read the guest's files: from its page cache, and from the layers.
- `machine` puts these together; `worker` does so in a process of its own, which is what to use
  on a machine that nobody vouches for.

A guest's memory is not to be trusted. A structure that makes no sense ends what is being read, not
the program: it raises `InspectError`, or stands as a reason in what is returned.
"""


class InspectError(Exception):
    """Something of a machine could not be read; the text is a sentence for the user."""


class NoSuchTask(InspectError):
    """There is no such thread."""


class NoSuchFile(InspectError):
    """There is no such file."""
