"""Which predictors there are, and all of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.accuracy.loading import Loaded
from benchmarks.accuracy.ours import Ours
from benchmarks.accuracy.peers.aiconfigurator import AiConfigurator
from benchmarks.accuracy.peers.gpustack import GpuStack
from benchmarks.accuracy.peers.hf_mem import HfMem
from benchmarks.accuracy.peers.kaito import Kaito
from benchmarks.accuracy.peers.llm_d_planner import LlmDPlanner
from benchmarks.accuracy.prediction import PeerUnavailable, Prediction, Predictor

PEERS: tuple[Predictor, ...] = (HfMem(), AiConfigurator(), Kaito(), GpuStack(), LlmDPlanner())


@dataclass(frozen=True, slots=True)
class Column:
    """One predictor's answers: a prediction for every scored case and every row of weights, or why there are none."""

    name: str
    source: str
    cases: list[Prediction] | None = None
    weights: list[Prediction] | None = None
    unavailable: str | None = None


def peers_named(text: str) -> tuple[Predictor, ...]:
    """The peers of ``all``, ``none`` or a list of names.

    Raises:
        ValueError: a name is no peer's.
    """
    if text in {"all", "none"}:
        return PEERS if text == "all" else ()
    wanted = [name.strip().casefold() for name in text.split(",") if name.strip()]
    known = {peer.name.casefold(): peer for peer in PEERS}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"--peers: {unknown[0]!r} is no peer; give all, none, or some of {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def ask_all(loaded: Loaded, peers: Sequence[Predictor]) -> list[Column]:
    """Our column, then the peers'. A peer that cannot run here costs its column, nothing else."""
    return [_column(predictor, loaded) for predictor in (Ours(), *peers)]


def _column(predictor: Predictor, loaded: Loaded) -> Column:
    try:
        return Column(
            predictor.name,
            predictor.source,
            cases=predictor.predict([each.setup for each in loaded.scored]),
            weights=predictor.predict_weights([setup for _, setup in loaded.weights]),
        )
    except (PeerUnavailable, OSError) as error:
        return Column(predictor.name, predictor.source, unavailable=str(error))
