"""One kind of replica: its estimate, the limits of its engine, and its speed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import Task
from plimsoll.domain.outcomes import Fit, Option, Target
from plimsoll.domain.serving import Request
from plimsoll.domain.units import format_gib
from plimsoll.placement.feasibility import hourly_price, sized
from plimsoll.placement.sizing import Sized
from plimsoll.rebalance.law.capacity import ReplicaModel
from plimsoll.rebalance.law.modelling import model_of


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one engine, as its estimate and its settings give them."""

    kv_tokens: int
    max_num_seqs: int
    max_batched_tokens: int


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of replica: the request with its settings, the estimate, the limits of its engine, and its speed."""

    request: Request
    place: Sized
    limits: Limits
    model: ReplicaModel

    @property
    def room_tokens(self) -> int:
        """The most tokens of a prompt and its answer: the context, or the whole KV cache if it is less."""
        block = self.place.figures.kv_block_tokens
        return min(self.place.settings.max_model_len, self.limits.kv_tokens // block * block)

    @property
    def option(self) -> Option:
        """The replica as the plan knows it. The labels of nodes decide nothing here."""
        gpu, split = self.place.gpu, self.place.split
        target = Target(gpu.name, split, ("gpu", gpu.name), "nvidia.com/gpu")
        return Option(gpu, target, self.place.settings, self.place.figures, hourly_price(gpu, split))

    def with_settings(self, sequences: int, step_tokens: int) -> Kind | None:
        """Return the replica with other settings, 0 for those that stay; None where it would not fit then."""
        engine = self.request.engine
        changed = replace(
            engine,
            max_sequences=sequences or engine.max_sequences,
            max_batched_tokens=step_tokens or engine.max_batched_tokens,
        )
        request, gpu, split = replace(self.request, engine=changed), self.place.gpu, self.place.split
        place = Sized(gpu, split, *sized(request, gpu, split))
        return None if place.figures.fit is Fit.NO else kind_of_replica(request, place)


def kind_of_replica(request: Request, place: Sized) -> Kind:
    """Return one replica of a deployment on a GPU type.

    Raises:
        InvalidInput: it cannot be simulated.
    """
    split, figures, settings = place.split, place.figures, place.settings
    if request.model.task is not Task.GENERATE:
        raise InvalidInput("model", request.model.name, "Name a model that generates; this one pools.")
    if split.data_parallel > 1 or split.pipeline_parallel > 1:
        raise InvalidInput("split", str(tuple(split)), "Name a split with tensor parallelism alone.")
    if figures.fit is Fit.NO:
        missing = figures.needed_bytes - figures.budget_bytes
        fix = f"{format_gib(missing)} are missing on each GPU. Use more GPUs, a shorter context or fewer requests."
        raise InvalidInput("gpu", place.gpu.name, fix)
    model = model_of(request, place.gpu, split, figures.kv_capacity_tokens)
    if model is None:
        raise InvalidInput("model", request.model.name, "The performance model does not know it on this GPU type.")
    sequences = min(settings.max_num_seqs, figures.max_sequences or settings.max_num_seqs)
    limits = Limits(figures.kv_capacity_tokens, sequences, settings.max_num_batched_tokens)
    return Kind(request, place, limits, replace(model, max_sequences=sequences))
