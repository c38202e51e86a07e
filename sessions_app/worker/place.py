"""Where a process runs, as far as it can see and end processes there."""

import os
from pathlib import Path


def place() -> str:
    """The same text for two processes exactly when each sees all that the other could start.

    This boot of this kernel, this PID namespace (containers share a kernel, not their processes) and this user, as whom
    other processes' markers can be read. What is not found from one place proves nothing about another (J6).
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()} {os.geteuid()}"
