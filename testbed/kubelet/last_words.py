"""The termination message of a container: the end of its log, if its manifest wants that after an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LINES, _BYTES = 80, 2048
"""The most of the log that a kubelet takes.

Source: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""


def last_words(container: Mapping[str, Any], exit_code: int, log: bytes) -> str:
    """Return the termination message.

    A file at ``terminationMessagePath``, which a real kubelet prefers, is not looked for: engines write none.
    """
    wanted = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if not wanted or exit_code == 0:
        return ""
    lines = b"".join(log.splitlines(keepends=True)[-_LINES:])
    return lines[-_BYTES:].decode(errors="replace")
