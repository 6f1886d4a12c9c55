"""Place a deployment again on another GPU type or split."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.rebalance.decisions import Move, Wait
from plimsoll.rebalance.diagnose import Diagnosis, DiagnosisKind
from plimsoll.rebalance.remedies.protocol import Ask, Offer
from plimsoll.rebalance.situation import Situation


def move(diagnosis: Diagnosis, _: Situation, ask: Ask) -> Offer | Wait | None:
    """Leave a place that gives less memory than the declared load needs."""
    if diagnosis.kind is not DiagnosisKind.OUTGROWN:
        return None
    return ask(Move(diagnosis.reason, diagnosis.numbers), replace(ask.tenant, accepts_move=True))
