"""Common parts of the llm-d workload variant autoscaler (WVA): its tick, its optimizer, and who carries its number out.

Sources: llm-d/llm-d-workload-variant-autoscaler, internal/config/config.go (interval), internal/engines/pipeline
(cost-aware optimizer, here with one variant), and the README's HPA (windows of 60 s, 10 pods in 15 s).
docs/benchmark.md has another HPA: no window for additions, 240 s for removals, 10 pods in 150 s. The HPA carries the
published number out without its tolerance of 10 %, which would keep the tenth replica for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from plimsoll.simulation.peers.hpa import Behavior, Hpa, Rules, Step
from plimsoll.simulation.peers.signals import clamped, serving
from plimsoll.simulation.peers.view import View

TICK_SECONDS = 15.0

SCALE_UP_THRESHOLD = 0.85
"""The part of the supply that the demand may take before replicas are added."""

SCALE_DOWN_BOUNDARY = 0.70
"""The part of the supply that the demand may take after a removal."""

README = Behavior(Rules(60, (Step(15, pods=10),)), Rules(60, (Step(15, pods=10),)))
BENCHMARK = Behavior(Rules(0, (Step(150, pods=10),)), Rules(240, (Step(150, pods=10),)))


@dataclass(frozen=True, slots=True)
class Analysis:
    """The finding of an analyzer, in its own unit: what is missing, what is spare, and what one replica gives."""

    required: float
    spare: float
    per_replica: float

    @property
    def more(self) -> int:
        """The replicas to add."""
        return math.ceil(self.required / self.per_replica)

    @property
    def fewer(self) -> int:
        """The replicas that may go."""
        return math.floor(self.spare / self.per_replica)


class Analyzer(Protocol):
    """Looks at the signals; None where it knows nothing."""

    def __call__(self, view: View) -> Analysis | None:
        """Return the finding."""


def analysis_of(demand: float, per_replica: float, view: View) -> Analysis:
    """Compare a demand with the supply of the ready replicas, and with that of all replicas."""
    supply, anticipated = len(serving(view)) * per_replica, view.wanted * per_replica
    required = max(0.0, demand / SCALE_UP_THRESHOLD - anticipated)
    spare = max(0.0, supply - demand / SCALE_DOWN_BOUNDARY)
    return Analysis(required, spare, per_replica)


@dataclass(slots=True)
class Wva:
    """Adds if any analyzer needs it, removes only if all agree, and holds its number where none knows anything."""

    analyzers: Sequence[Analyzer]
    hpa: Hpa = field(default_factory=lambda: Hpa(README))
    tick_seconds: float = TICK_SECONDS
    published: int | None = None

    def __call__(self, view: View) -> int:
        """Publish a number, and return what the HPA makes of it."""
        found = [analysis for analysis in [analyzer(view) for analyzer in self.analyzers] if analysis is not None]
        if found:
            self.published = clamped(view.wanted + _change(found), view)
        return view.wanted if self.published is None else self.hpa(view.now, view.wanted, self.published)


def _change(found: Sequence[Analysis]) -> int:
    more = max(analysis.more for analysis in found)
    return more if more > 0 else -min(analysis.fewer for analysis in found)
