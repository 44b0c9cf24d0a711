"""Going to any point of a run, without starting at its boot each time.

- `keyframe` is a file: a machine's state at a point, without the pages that an earlier one has.
- `cache` is the directory of such files, which all commands share.
- `timeline` starts machines of a run, and stops them where they are wanted.
- `times` are the guest times of a run's steps.
- `watch` has a machine watched, or stopped, by a plugin of QEMU's.

Points are absolute guest times here, in ns since the machine was started: a perturbation, a stop
and a keyframe may be at any instruction, and an instruction is a nanosecond.
"""
