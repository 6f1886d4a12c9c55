"""The memory figures of one GPU that a hull is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate

if TYPE_CHECKING:
    # at run time it needs pydantic, which hulls do without
    from plimsoll.api.v1alpha1.status import CandidateFiguresStatus, EstimateStatus, RejectionStatus


@dataclass(frozen=True, slots=True)
class Figures:
    """The need and the room of one GPU of one replica, in bytes.

    The four terms are those of a hull: ``other`` is CUDA graphs, overhead, adapters and what was learned. ``slack`` and
    ``margin`` are the lower and the upper half of the error band around the sum of the terms. ``budget`` is the load
    line: the memory that the engine may use. ``usable`` is all memory of the GPU as the engine sees it. ``override`` is
    the admin's figure that replaces the need. Tokens are those of a whole replica.
    """

    weights: int
    kv_cache: int
    activations: int
    other: int
    slack: int
    margin: int
    budget: int
    usable: int
    kv_needed_tokens: int
    kv_capacity_tokens: int
    override: int | None = None
    fit: Fit | None = None

    @property
    def terms(self) -> tuple[int, int, int, int]:
        """The terms as they are drawn, in their order; what was learned may make the last one less than nothing."""
        return self.weights, self.kv_cache, self.activations, max(0, self.other)

    @property
    def expected(self) -> int:
        """The sum of the terms."""
        return self.weights + self.kv_cache + self.activations + self.other

    @property
    def lower(self) -> int:
        """The lower edge of the error band."""
        return self.expected - self.slack

    @property
    def upper(self) -> int:
        """The upper edge of the error band: the need with its margin."""
        return self.expected + self.margin

    @property
    def needed(self) -> int:
        """The need that placement uses: the admin's figure if there is one."""
        return self.upper if self.override is None else self.override

    @property
    def spare(self) -> int:
        """The budget beyond the computed need; negative if the need is beyond the line, whatever an admin says."""
        return self.budget - self.upper

    @property
    def is_over(self) -> bool:
        """Whether even the lower edge of the error band is beyond the line."""
        return self.lower > self.budget


def figures_of_estimate(estimate: MemoryEstimate) -> Figures:
    """Return the figures of an estimate of the core."""
    other = estimate.expected_bytes - estimate.weights_bytes - estimate.kv_cache_bytes - estimate.activations_bytes
    return Figures(
        weights=estimate.weights_bytes,
        kv_cache=estimate.kv_cache_bytes,
        activations=estimate.activations_bytes,
        other=other,
        slack=estimate.slack_bytes,
        margin=estimate.margin_bytes,
        budget=estimate.budget_bytes,
        usable=estimate.usable_bytes,
        kv_needed_tokens=estimate.kv_needed_tokens,
        kv_capacity_tokens=estimate.kv_capacity_tokens,
        override=estimate.forced_bytes,
        fit=estimate.fit,
    )


def figures_of_status(estimate: EstimateStatus) -> Figures:
    """Return the figures that the operator wrote into a status."""
    from plimsoll.status.signs import expected_bytes  # noqa: PLC0415 - it needs pydantic, which hulls do without

    other = expected_bytes(estimate) - estimate.weights_bytes - estimate.kv_cache_bytes - estimate.activations_bytes
    fit = None if estimate.fit is None else Fit(estimate.fit)
    return _written(estimate, other, estimate.margin_bytes, fit)


def figures_of_rejection(rejection: RejectionStatus) -> Figures | None:
    """Return the figures of memory that the operator wrote with a rejection; None if there are none."""
    found = rejection.figures
    if found is None:
        return None
    terms = found.weights_bytes + found.kv_cache_bytes + found.activations_bytes
    fit = Fit(found.fit) if found.fit in set(Fit) else None
    return _written(found, found.expected_bytes - terms, found.computed_bytes - found.expected_bytes, fit)


def _written(found: EstimateStatus | CandidateFiguresStatus, other: int, margin: int, fit: Fit | None) -> Figures:
    return Figures(
        weights=found.weights_bytes,
        kv_cache=found.kv_cache_bytes,
        activations=found.activations_bytes,
        other=other,
        slack=found.slack_bytes or 0,
        margin=margin,
        budget=found.budget_bytes,
        usable=found.usable_bytes,
        kv_needed_tokens=found.kv_needed_tokens,
        kv_capacity_tokens=found.kv_capacity_tokens,
        override=found.override_bytes,
        fit=fit,
    )
