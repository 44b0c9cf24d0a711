"""What travels with runs between people and machines, and is no part of a run itself."""
