"""Become another program that dies with its parent. Run by path in a bare interpreter, so it imports nothing of ours.

Arguments: the expected parent's process id, then the command line. A pre-exec hook in the parent would do the same but
is not safe there: the parent has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""Source: ``linux/prctl.h``."""


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's death, then exec. Where there is no such call, just exec."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent ended before this process began")
    os.execv(command[0], command)  # noqa: S606 -- an absolute path, no shell


if __name__ == "__main__":
    main()
