"""Which records no constant of the memory law was fitted on.

The rule is that of ``tests/memory/overhead_rows.py``, where the constants are held to their rows: a third of the
carried logs, by a digest of the id. The carried runs were all open to the fit; a file that someone brings along was
open to none of it.
"""

from __future__ import annotations

from hashlib import sha256

from benchmarks.accuracy.cases import Case


def is_held_out(case: Case, *, is_carried: bool) -> bool:
    """Whether the record only checks the constants."""
    if not is_carried:
        return True
    return case.dataset == "logs" and sha256(case.id.encode()).digest()[0] % 3 == 0
