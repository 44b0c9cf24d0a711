"""Recording what Nix builds, after it has: a post-build hook, its queue, and who works it off.

The hook (`rewind.hook.enqueue`) is started by Nix for every derivation that it has built, and Nix
waits for it: it does no more than to put a file into a directory, and imports nothing that takes
long. The worker (`rewind hook run`, `rewind.hook.worker`) records or checks what is in the queue.
Both may be killed at any time: an entry is a file that is there until its work is done, and the
work is making store paths, which is done once however often it is begun.
"""
