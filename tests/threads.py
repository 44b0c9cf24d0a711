"""Threads that take turns in an order of the scheduler's, and say in which."""

import os
import threading
import time

turns: list[int] = []


def work(number: int) -> None:
    """Takes ten turns, with some computing and some waiting between them."""
    for turn in range(10):
        turns.append(number)
        sum(range(number * 1000 + turn))
        time.sleep(0.001 * (number % 3))


threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*turns)
print(time.time_ns(), os.urandom(8).hex(), hash("hash"))
