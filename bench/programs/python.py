"""Sorts, joins and counts words, as many as the argument says: an interpreter at work."""

import sys
from collections import Counter


def main() -> None:
    """Print how many different words there are, and the last of them."""
    number = 1
    words = []
    for _ in range(int(sys.argv[1])):
        number = number * 1103515245 + 12345 & 0x7FFFFFFF
        words.append(f"word{number % 5000:04d}")
    counts = Counter(words)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    text = ",".join(f"{word}={count}" for word, count in ordered)
    print(len(counts), text[-13:])


if __name__ == "__main__":
    main()
