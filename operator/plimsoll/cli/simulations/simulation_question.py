"""The run that a simulation question asks for: a model on a GPU type, the requests, and the bounds of the policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plimsoll.cli.later import manifest_question
from plimsoll.cli.questions.asked import DEFAULT_CONTEXT, Asked
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.names import meant_types, named
from plimsoll.cli.questions.types import answers
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.sizing import Sized
from plimsoll.rebalance.state.memory import FIRST_STARTUP_SECONDS
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.simulation.run import USUAL_PATIENCE_SECONDS, SimulationRun, kind_of_replica
from plimsoll.simulation.workload import PRESETS, Workload, preset

DEFAULT_MOST_REPLICAS = 10

_USUAL = RebalancePolicy()


@dataclass(frozen=True, slots=True)
class Simulated:
    """A question as typed, by options of these names; None where left out. The preset gives what the workload lacks.

    ``startup`` and ``patience`` are in seconds, ``cooldown`` and ``window`` are those of ``spec.rebalancing``.
    """

    model: str
    gpu: str
    preset: str = PRESETS[0].name
    tp: int | None = None
    context: int | None = None
    concurrency: int | None = None
    requests_per_second: float | None = None
    prompt: int | None = None
    output: int | None = None
    spread: float | None = None
    shared_prefix: int | None = None
    burst: float | None = None
    burst_seconds: float | None = None
    burst_every: float | None = None
    minutes: float | None = None
    replicas: int = 1
    min_replicas: int = 1
    max_replicas: int = DEFAULT_MOST_REPLICAS
    mode: Mode = Mode.AUTO
    cooldown: int = _USUAL.cooldown_seconds
    window: int = _USUAL.window_seconds
    startup: float = FIRST_STARTUP_SECONDS
    patience: float = USUAL_PATIENCE_SECONDS
    seed: int = 1
    engine: str | None = None


def simulation_run_of(asked: Simulated) -> SimulationRun:
    """Return the simulation run.

    Raises:
        InvalidInput: a figure or a name cannot be used, or the model does not fit.
        PlimsollError: the model cannot be read.
    """
    workload = workload_of(asked)
    request, place = _placed(asked, workload)
    policy = RebalancePolicy(
        mode=asked.mode,
        min_replicas=asked.min_replicas,
        max_replicas=asked.max_replicas,
        cooldown_seconds=asked.cooldown,
        window_seconds=asked.window,
    )
    return SimulationRun(
        kind=kind_of_replica(request, place),
        workload=workload,
        policy=policy,
        replicas=asked.replicas,
        startup_seconds=asked.startup,
        patience_seconds=asked.patience,
        seed=asked.seed,
    )


def workload_of(asked: Simulated) -> Workload:
    """Return the requests: those of the preset, with what the question gives in its place.

    Raises:
        InvalidInput: the preset is unknown, or a figure is out of its range.
    """
    chosen = preset(asked.preset)
    if chosen is None:
        raise InvalidInput("preset", asked.preset, f"Use {', '.join(each.name for each in PRESETS)}.")
    given = {
        "requests_per_second": asked.requests_per_second,
        "prompt_tokens": asked.prompt,
        "output_tokens": asked.output,
        "spread": asked.spread,
        "shared_prefix_tokens": asked.shared_prefix,
        "burst_factor": asked.burst,
        "burst_seconds": asked.burst_seconds,
        "burst_every_seconds": asked.burst_every,
        "minutes": asked.minutes,
    }
    changes: dict[str, float] = {name: value for name, value in given.items() if value is not None}
    if asked.shared_prefix is None and asked.prompt is not None:
        changes["shared_prefix_tokens"] = min(chosen.workload.shared_prefix_tokens, asked.prompt - 1)
    return replace(chosen.workload, **changes)  # type: ignore[arg-type]  # the names are those of its fields


def _placed(asked: Simulated, workload: Workload) -> tuple[Request, Sized]:
    split = None if asked.tp is None else Split(asked.tp)
    options = Asked(
        context=asked.context or _context(workload), concurrency=asked.concurrency, engine=asked.engine, split=split
    )
    source = named(asked.model)
    question = direct_question(source.source, options) or manifest_question(source.source, options)
    request = question.request
    if asked.context is None and request.shape.context_tokens > request.model.max_context_tokens:
        request = replace(request, shape=replace(request.shape, context_tokens=request.model.max_context_tokens))
    found = answers(request, meant_types((asked.gpu,)).types, split)[0]
    if isinstance(found, Rejection):
        raise InvalidInput("gpu", asked.gpu, rejection_sentence(found))
    return request, found


def _context(workload: Workload) -> int:
    """Return a context that holds requests of twice the mean: a power of two, and the usual one at least."""
    longest, found = 2 * (workload.prompt_tokens + workload.output_tokens), DEFAULT_CONTEXT
    while found < longest:
        found *= 2
    return found
