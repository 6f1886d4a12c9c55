"""One deployment: why is it here, what does it hold, what happened to it?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.api.v1alpha1.status import (
    Condition,
    DecisionStatus,
    EngineSettingsStatus,
    InferenceDeploymentStatus,
    PoolStatus,
    RoutingGatewayStatus,
)
from plimsoll.console.drawing.bar import DrawnMemory, drawn_memory
from plimsoll.console.views.deployment.candidates import Candidates, ChosenToday, candidates_of, chosen_today
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.rows import DeploymentRow, row_of
from plimsoll.console.views.states import NOT_KNOWN, Pressures, StateMark, mark_of
from plimsoll.console.views.words import Fact, count, dollars, gib, separated, split_words
from plimsoll.console.views.world import ClusterView, PodRow
from plimsoll.domain.cluster.spot import card_name
from plimsoll.domain.decisions.outcomes import Fit
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import counted
from plimsoll.placement.demands.pools import is_at
from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text
from plimsoll.render.names import DEPLOYMENT_LABEL
from plimsoll.status.record.places import split_of
from plimsoll.status.record.reading import read, whole_status
from plimsoll.status.words.engines import title_of
from plimsoll.status.words.placed import (
    found_words,
    host_cache_words,
    host_error_words,
    host_layers_words,
    speed_words,
)
from plimsoll.status.words.prices import billing_words

Body = Mapping[str, Any]

BIG_LENGTH = 720.0


@dataclass(frozen=True, slots=True)
class PoolLine:
    """A pool with its predicted and its real KV cache."""

    pool: PoolStatus
    place: str
    error: str
    note: str


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """A decision in words; ``found`` says how its places were found, and is empty if nothing had to be placed."""

    id: str
    at: str
    placed: str
    replaced: str
    found: str


@dataclass(frozen=True, slots=True)
class DeploymentPage:
    """Everything on the page of one deployment."""

    row: DeploymentRow
    state: StateMark
    drawn: DrawnMemory | None
    facts: tuple[Fact, ...]
    routing: tuple[Fact, ...]
    questions: tuple[QuestionLink, ...]
    candidates: Candidates
    today: ChosenToday | None
    conditions: tuple[Condition, ...]
    pools: tuple[PoolLine, ...]
    pods: tuple[PodRow, ...]
    decisions: tuple[DecisionLine, ...]
    suggestions: tuple[str, ...]
    commands: tuple[Fact, ...]
    logs: Mapping[ObjectKey, str]


def deployment_of(
    body: Body,
    world: ClusterView,
    live: float | None = None,
    *,
    grafana_url: str | None = None,
    logs_url: str | None = None,
    pressures: Pressures = NOT_KNOWN,
) -> DeploymentPage:
    """Return the page of one InferenceDeployment as the API server has it.

    Args:
        body: the object.
        world: everything else that the person may see.
        live: the used share of its KV cache (0 to 1); None if it is not known.
        grafana_url: root of a Grafana with the chart's dashboard; None for no link to it.
        logs_url: the address of a pod's logs, with ``{namespace}``, ``{deployment}`` and ``{pod}``; None for no links.
        pressures: what the engines report now.
    """
    status, row = whole_status(read(body.get("status"))), row_of(body)
    candidates = candidates_of(status, row)
    return DeploymentPage(
        row=row,
        state=mark_of(row, pressures),
        drawn=None if row.figures is None else drawn_memory(row.figures, BIG_LENGTH, live),
        facts=tuple(_facts(status, row, body)),
        routing=tuple(_routing(status)),
        questions=questions_about(row, body.get("spec") or {}, grafana_url),
        candidates=candidates,
        today=chosen_today(candidates),
        conditions=tuple(status.conditions or ()),
        pools=tuple(map(_pool, status.pools or ())),
        pods=tuple(sorted((pod for pod in world.pods if pod.owner == row.key), key=lambda pod: pod.key)),
        decisions=tuple(map(_decision, status.decisions or ())),
        suggestions=tuple(each.message for each in status.suggestions or ()),
        commands=tuple(_commands(row.key)),
        logs={} if logs_url is None else {pod.key: _logs(logs_url, pod) for pod in world.pods if pod.owner == row.key},
    )


def _facts(status: InferenceDeploymentStatus, row: DeploymentRow, body: Body) -> Iterator[Fact]:
    if row.figures is not None:
        yield Fact("Room for KV", _holds(status, row))
    yield Fact("Load", _load(body))
    if status.placement is not None:
        yield Fact("Engine", f"{_engine_title(status, body)} {_engine(status.placement.engine)}")
        source = f"{f', from {row.price_source}' if row.price_source else ''}{billing_words(row.billing)}"
        yield Fact(
            "Price", f"{dollars(row.hourly_price)}/h for all replicas{source}" if row.hourly_price else "unknown"
        )
    if status.engine is not None:
        yield Fact(
            "Chosen engine", " ".join((status.engine.message, *(each.message for each in status.engine.others or ())))
        )
    yield from _speed(status)
    yield from _host_memory(status)
    yield Fact("Spec", _seen(status, row))
    if row.figures is not None and row.figures.fit is not None:
        yield Fact("Fit", _fit(row.figures, row.figures.fit, status))


def _holds(status: InferenceDeploymentStatus, row: DeploymentRow) -> str:
    estimate = status.estimate
    assert estimate is not None  # noqa: S101 - the figures are made from it
    low, high = estimate.kv_capacity_low_tokens, estimate.kv_capacity_high_tokens
    band = f" ({count(low)} to {count(high)} by the error band)" if low is not None and high is not None else ""
    needed = row.figures.kv_needed_tokens if row.figures is not None else None
    return f"{count(estimate.kv_capacity_tokens)} tokens fit{band}; the load needs {count(needed)}"


def _load(body: Body) -> str:
    spec = body.get("spec") or {}
    requests, length = spec.get("concurrency"), spec.get("contextLength")
    of_all = spec.get("totalConcurrency")
    if of_all is not None:
        return f"{_number(of_all)} requests on all replicas, up to {_number(length)} tokens each"
    return f"{_number(requests)} requests of {_number(length)} tokens at the same time"


def _number(value: Any) -> str:
    return count(value) if isinstance(value, int) else str(value if value is not None else "unknown")


def _engine_title(status: InferenceDeploymentStatus, body: Body) -> str:
    """Return the engine's name for people; for one that this release does not know, its name in the spec."""
    if status.engine is not None:
        return title_of(status.engine.name)
    asked = (body.get("spec") or {}).get("engine")
    name = str((asked.get("name") if isinstance(asked, Mapping) else None) or DEFAULT_ENGINE)
    return title_of(name)


def _engine(engine: EngineSettingsStatus) -> str:
    return (
        f"{engine.version}, {engine.gpu_memory_utilization_percent} % utilization, "
        f"{count(engine.max_num_seqs)} sequences, {count(engine.max_num_batched_tokens)} tokens a step"
    )


def _speed(status: InferenceDeploymentStatus) -> Iterator[Fact]:
    speed = None if status.placement is None else status.placement.performance
    if speed is not None:
        yield Fact("Speed", f"{speed_words(speed)}{_measured(status)}")


def _host_memory(status: InferenceDeploymentStatus) -> Iterator[Fact]:
    host = None if status.placement is None else status.placement.host
    if host is not None and host.cache is not None:
        tokens = 0 if status.estimate is None else status.estimate.kv_capacity_tokens
        active = [pool for pool in status.pools or () if pool.state == "Active"]
        reported = [pool.host_tokens_reported for pool in active if pool.host_tokens_reported is not None]
        least = min(reported, default=0)
        said = f" An engine reports {count(least)} tokens{host_error_words(host.cache, least)}." if reported else ""
        yield Fact("Host cache", f"{host_cache_words(host.cache, tokens)}{said}")
    if host is not None and host.layers is not None:
        yield Fact("Host weights", host_layers_words(host.layers))


def _routing(status: InferenceDeploymentStatus) -> Iterator[Fact]:
    """Yield the address that clients call, and who chooses the replica of a request."""
    routing = status.routing
    if status.url is not None:
        yield Fact("Address", status.url)
    if routing is None:
        return
    yield Fact("Router", f"{_STATES.get(routing.state, routing.state)} (mode {routing.mode})")
    if routing.gateway is not None:
        yield Fact("Gateway", _gateway(routing.gateway))
    if routing.picker_ready is not None:
        yield Fact("Picker", "answers" if routing.picker_ready else "does not answer")
    if routing.endpoints is not None:
        yield Fact("Endpoints", counted(routing.endpoints, "replica"))
    if routing.message:
        yield Fact("Why", routing.message)


_STATES = {
    "Ready": "requests go through it",
    "Starting": "it starts, and requests go to any ready replica",
    "NotReady": "it is not ready, and requests go to any ready replica",
    "Missing": "there is none, and requests go to any ready replica",
}


def _gateway(gateway: RoutingGatewayStatus) -> str:
    name = f"{gateway.namespace}/{gateway.name}"
    if gateway.accepted is None:
        return f"{name}, whose controller has not answered"
    said = "admits the route" if gateway.accepted else "does not admit the route"
    return f"{name} {said}, says {gateway.controller or 'its controller'}"


def _measured(status: InferenceDeploymentStatus) -> str:
    """Return how the measured time of a token compares with the estimate at the same load; empty if it is not known."""
    placement, learned = status.placement, None if status.rebalancing is None else status.rebalancing.learned
    if placement is None or learned is None or learned.token_time_percent == 100:  # noqa: PLR2004 - as estimated
        return ""
    is_here = is_at(learned.pool, placement.gpu_type, split_of(placement))
    return f"; engines take {learned.token_time_percent} % of the estimated time" if is_here else ""


def _seen(status: InferenceDeploymentStatus, row: DeploymentRow) -> str:
    """Return which spec this page is about."""
    number = status.observed_generation
    if number is None:
        return "the operator has not read it yet"
    if row.is_behind:
        return f"this is the state for generation {count(number)}: the operator has not read your last change yet"
    return f"the operator has read the newest one (generation {count(number)})"


_FITS = {
    Fit.SURE: "it fits, also with the whole error band",
    Fit.PROBABLE: "it probably fits",
    Fit.NO: "it does not fit",
}


def _fit(figures: Figures, fit: Fit, status: InferenceDeploymentStatus) -> str:
    doubts = () if status.estimate is None else tuple(status.estimate.doubts or ())
    why = f" (in doubt: {', '.join(doubts)})" if doubts else ""
    if figures.override is not None:
        return f"{_FITS[fit]}, by an admin's figure: {gib(figures.override)} GiB{why}"
    return f"{_FITS[fit]}{why}"


def _pool(pool: PoolStatus) -> PoolLine:
    predicted, reported = pool.kv_tokens_predicted, pool.kv_tokens_reported
    error = ""
    if predicted is not None and reported is not None:
        permille = CapacityReading(predicted, reported).error_permille
        error = "" if permille is None else error_percent_text(permille)
    return PoolLine(pool, f"{pool.gpu_type} {split_words(split_of(pool))}", error, pool.kv_tokens_note or "")


def _decision(entry: DecisionStatus) -> DecisionLine:
    found = found_words(entry.solver, entry.gap_permille)
    return DecisionLine(entry.id, entry.at, separated(entry.placed), separated(entry.replaced or ""), found)


def _commands(key: ObjectKey) -> Iterator[Fact]:
    """Yield the commands that show what the console does not: a person's own kubectl has the rights for it, or not."""
    place = ("-n", key.namespace)
    selected = ("-l", f"{DEPLOYMENT_LABEL}={key.name}")
    logs = ("kubectl", "logs", *place, *selected, "--all-containers", "--prefix", "--tail=200")
    yield Fact("The engines' last lines", shlex.join(logs))
    yield Fact(
        "What the operator reports of it", shlex.join(("kubectl", "events", *place, "--for", f"{_KIND}/{key.name}"))
    )
    yield Fact("Why a pod does not start", shlex.join(("kubectl", "describe", "pods", *place, *selected)))


_KIND = f"{INFERENCE_DEPLOYMENTS.plural}.{INFERENCE_DEPLOYMENTS.group}"


def _logs(template: str, pod: PodRow) -> str:
    """Return the address of a pod's logs. Names become parts of an address: each is quoted."""
    names = {"namespace": pod.key.namespace, "deployment": pod.deployment, "pod": pod.key.name}
    return template.format_map({name: quote(value, safe="") for name, value in names.items()})


Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QuestionLink:
    """A link: its words and its address."""

    words: str
    url: str


DASHBOARD = "plimsoll"
"""The uid of the chart's Grafana dashboard, whose variables are ``namespace`` and ``deployment``."""


def questions_about(row: DeploymentRow, spec: Spec, grafana_url: str | None = None) -> tuple[QuestionLink, ...]:
    """Return the links.

    Args:
        row: the deployment in short.
        spec: as the API server has it; it may hold anything.
        grafana_url: root of a Grafana with the chart's dashboard; None for no link to it.
    """
    return tuple(_questions(row, spec, grafana_url))


def _questions(row: DeploymentRow, spec: Spec, grafana_url: str | None) -> Iterator[QuestionLink]:
    load = {
        name: str(value)
        for name, field in (("context-length", "contextLength"), ("concurrency", "concurrency"))
        if isinstance(value := spec.get(field), int)
    }
    gpu = {} if row.gpu_type is None else {"gpu": card_name(row.gpu_type)}
    split = {} if row.split is None else {"tp": str(row.split.tensor_parallel)}
    yield QuestionLink("Size it in the calculator", f"/calculator?{urlencode({'model': row.model, **load, **gpu})}")
    if gpu:
        wanted = {"model": row.model, **gpu, **split, **load}
        yield QuestionLink("Simulate a load", f"/simulator?{urlencode(wanted)}")
        yield QuestionLink("What would Auto have done?", f"/deployments/{row.key.namespace}/{row.key.name}/replay")
    if row.pools and "totalConcurrency" not in spec:  # which lets the planner choose the number of replicas
        replicas = sum(pool.replicas for pool in row.pools if not pool.is_retiring)
        change = urlencode({"change": f"{row.key}.replicas={replicas + 1}"})
        yield QuestionLink("What would one more replica change?", f"/what-if?{change}")
    if grafana_url is not None:
        chosen = urlencode({"var-namespace": row.key.namespace, "var-deployment": row.key.name})
        yield QuestionLink("Over time in Grafana", f"{grafana_url}/d/{DASHBOARD}?{chosen}")
