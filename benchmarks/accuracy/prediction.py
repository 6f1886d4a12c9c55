"""What a predictor says of one case, and what a predictor is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from benchmarks.accuracy.setups import Setup


class Verdict(StrEnum):
    """Whether the model starts. A predictor that knows no doubt says only ``sure`` and ``no``."""

    SURE = "sure"
    PROBABLE = "probable"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Prediction:
    """Figures of one GPU, in the units of the engine's log; None where the predictor has no answer.

    ``kv_low_gib`` .. ``kv_high_gib`` and ``tokens_low`` .. ``tokens_high`` are the band that the predictor itself
    states. ``buffers_gib`` is what modules keep in addition to their parameters (rotary tables), which weights do not
    include where they are asked for alone. ``note`` says why there is no answer, or by which of its ways the predictor
    came to it.
    """

    weights_gib: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None
    verdict: Verdict | None = None
    kv_low_gib: float | None = None
    kv_high_gib: float | None = None
    tokens_low: int | None = None
    tokens_high: int | None = None
    buffers_gib: float | None = None
    note: str | None = None


class Predictor(Protocol):
    """Answers all cases at once, so that a peer in a process of its own is started once."""

    @property
    def name(self) -> str:
        """The column's heading."""

    @property
    def source(self) -> str:
        """Where the predictor, or its formula, is from; with its version."""

    def predict(self, setups: Sequence[Setup]) -> list[Prediction]:
        """One prediction a setup, in order. Raises PeerUnavailable when the predictor cannot run here."""

    def predict_weights(self, setups: Sequence[Setup]) -> list[Prediction]:
        """For setups without a GPU: the parameters of the fullest rank, as the engine's own modules count them."""


class PeerUnavailable(Exception):
    """The predictor cannot run on this machine; the message says why."""


Answers = Mapping[str, list[Prediction] | str]
"""Predictions of each predictor by its name, or why it could not run."""
