"""Which diagnoses are trouble: the deployment serves now, and worse than it was asked for."""

from __future__ import annotations

from plimsoll.domain.public_words import LiveTrouble
from plimsoll.rebalance.diagnosis.diagnose import DiagnosisKind
from plimsoll.rebalance.state.decisions import DecisionReason

_WOULD_BE_CHEAPER = DecisionReason.BATCH_LIMIT_BINDS
"""The engines' own limit binds although all requests are served: fewer replicas would do."""


def trouble_of(kind: DiagnosisKind, cause: DecisionReason) -> LiveTrouble | None:
    """Return the trouble that a diagnosis is, by its cause; None: nobody is served worse now."""
    if cause is _WOULD_BE_CHEAPER or kind.value not in set(LiveTrouble):
        return None
    return LiveTrouble(kind.value)
