#!/usr/bin/env python3
"""queue: one thread puts the files of a directory into a queue, another one counts their lines.

The consumer takes an empty queue for the end. Mostly all files have been in it by then.
"""

import json
import queue
import sys
import threading
import time
from pathlib import Path

DIRECTORY = Path(json.__file__).parent


def produce(todo: queue.Queue[Path]) -> None:
    """Put all files of the directory into *todo*."""
    for path in DIRECTORY.iterdir():
        if path.is_file():
            todo.put(path)


def consume(todo: queue.Queue[Path], lines: dict[str, int]) -> None:
    """Count the *lines* of each file in *todo*."""
    # as long as it takes to log in where the numbers go
    time.sleep(0.005)
    while not todo.empty():
        path = todo.get()
        lines[path.name] = path.read_text().count("\n")


def main() -> int:
    """The exit status is 0 if all files were counted, 1 if some were not."""
    todo: queue.Queue[Path] = queue.Queue()
    lines: dict[str, int] = {}
    threads = [
        threading.Thread(target=produce, args=(todo,)),
        threading.Thread(target=consume, args=(todo, lines)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = sum(path.is_file() for path in DIRECTORY.iterdir())
    print(f"{len(lines)} of {files} files, {sum(lines.values())} lines")
    return int(len(lines) != files)


if __name__ == "__main__":
    sys.exit(main())
