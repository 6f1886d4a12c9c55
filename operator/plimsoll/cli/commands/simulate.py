"""``plimsoll simulate``: the question, the run that it asks for, and the answer as text and as a document.

With requests that were there, each scaling law serves them once more (:mod:`plimsoll.cli.plans.replays`).

In a document, times are in seconds since the beginning, and absent figures are null, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import click
from rich.console import Console

from plimsoll import __version__
from plimsoll.cli.answers.engines import on_its_engine
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of, default_namespace, manifest_question, past_of
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.options import OF_CONTEXT, complete_model, option, output
from plimsoll.cli.plans.host_sizes import print_sizes, sizes_document, sizes_of, tried_sizes
from plimsoll.cli.plans.replays import (
    NO_BLOCKS,
    ReplayQuestion,
    of_deployment,
    of_trace,
    print_replay,
    print_routers,
    replay_document,
    routers_document,
    seconds_of,
)
from plimsoll.cli.questions.asked import DEFAULT_CONTEXT, TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.names import meant_types, named
from plimsoll.cli.questions.types import answers
from plimsoll.cli.screen import print_document, print_lines, print_listing, progressing, say, screen, waiting
from plimsoll.domain.decisions.outcomes import Rejection, Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.options.sizing import Sized
from plimsoll.rebalance.state.policy import Mode, RebalancePolicy
from plimsoll.simulation.replay import replayed, routed
from plimsoll.simulation.result import Moment, SimulationResult, TimePercentiles, clock, evenly
from plimsoll.simulation.run import USUAL_PATIENCE_SECONDS, SimulationRun, kind_of_replica
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.values import Routing
from plimsoll.simulation.workload import PRESETS, Workload, preset

DEFAULT_MOST_REPLICAS = 10
_NAMES = [each.name for each in PRESETS]
_OF_PRESET = "Default: the preset's."
ROUTERS = [each.value for each in (Routing.ROUND_ROBIN, Routing.LEAST_LOADED, Routing.PREFIX)]


@click.command("simulate")
@click.argument("model", shell_complete=complete_model)
@option("--trace", note="Each scaling law serves them.")
@option("--from-prometheus", note="MODEL is NAME then, and each scaling law serves them.")
@option("--router", note="With --trace.", words=ROUTERS, multiple=True)
@option("--host-tokens", note="With --trace.")
@option("--host-memory", "host_sizes", note="With --trace and one --router; auto tries five sizes.", multiple=True)
@option("--gpu", note="Without --from-prometheus, it must be named.")
@option("--tp")
@option("--context-length", note="Default: it holds twice the mean request.")
@option("--concurrency")
@option("--engine")
@option("--preset", words=_NAMES, default=_NAMES[0], show_default=True)
@option("--requests-per-second")
@option("--prompt", note=_OF_PRESET)
@option("--output-tokens", note=_OF_PRESET)
@option("--spread")
@option("--shared-prefix")
@option("--burst")
@option("--burst-seconds")
@option("--burst-every")
@option("--minutes")
@option("--replicas", default=1, show_default=True)
@option("--min-replicas", default=1, show_default=True)
@option("--max-replicas", default=DEFAULT_MOST_REPLICAS, show_default=True)
@option("--mode", words=[each.value for each in Mode], default=Mode.AUTO.value, show_default=True)
@option("--startup", default=FIRST_STARTUP_SECONDS, show_default=True)
@option("--patience", default=USUAL_PATIENCE_SECONDS, show_default=True)
@option("--seed", default=1, show_default=True)
@option("--prometheus-url")
@option("--namespace", note=f"With --from-prometheus. {OF_CONTEXT}")
@output("table", "json")
@with_cluster
def command(
    model: str,
    trace: str | None,
    span: str | None,
    routers: tuple[str, ...],
    host_tokens: int | None,
    host_sizes: tuple[str, ...],
    gpu: str | None,
    mode: str,
    form: str,
    prometheus_url: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    **asked: Any,
) -> None:
    """Say what happens to MODEL at a load: when KV cache or sequence slots fill, and what the live loop does when.

    Nothing runs: engines, requests and the clock are simulated, with the estimate's KV cache and the performance
    model's times. Every change has a place. The same options always give the same answer.

    With --trace FILE or --from-prometheus SPAN it says what mode Auto would have done: the same requests are served
    under the live loop, fixed numbers of replicas and the laws of other projects, with goodput, GPU-hours and changes.
    With --router it says what routing would bring, and with --host-memory what KV cache in host memory would.
    """
    _check_usage(trace, routers, host_tokens, host_sizes)
    if span is not None:
        if trace is not None or gpu is not None:
            raise click.UsageError(
                "--from-prometheus reads the deployment of the cluster: leave --trace and --gpu out."
            )
        seconds, access = seconds_of(span), ClusterAccess(kubeconfig, context)
        _answer(_past_question(model, seconds, prometheus_url, namespace, access, asked), form)
        return
    if gpu is None:
        raise click.UsageError("Missing option '--gpu'.")
    if context is not None or kubeconfig is not None or namespace is not None or prometheus_url is not None:
        raise click.UsageError("A cluster is asked with --from-prometheus alone. Tokens are --context-length.")
    meant = meant_types((gpu,))
    simulation_run = simulation_run_of(Simulated(model=model, gpu=meant.types[0], mode=Mode(mode), **asked))
    if trace is not None:
        given = [each for each in _OF_WORKLOAD if asked[each] is not None]
        if given:
            raise click.UsageError(f"--{given[0].replace('_', '-')} is of a workload: leave it out with --trace.")
        question = of_trace(trace, simulation_run, host_tokens)
        question = replace(question, notes=(*meant.notes, *question.notes))
        _answer_trace(question, routers, host_sizes, form)
        return
    with waiting(f"simulating {simulation_run.workload.minutes:g} min of requests"):
        result = simulate(simulation_run)
    say("note", meant.notes)
    if form == "json":
        print_document(form, {**simulation_document(simulation_run, result), "notes": list(meant.notes)})
    else:
        _print_simulation(screen(), simulation_run, result)


def _check_usage(trace: str | None, routers: Sequence[str], host_tokens: int | None, host_sizes: Sequence[str]) -> None:
    """Refuse options of a trace without one, and those that exclude each other."""
    named = {"--router": bool(routers), "--host-tokens": host_tokens is not None, "--host-memory": bool(host_sizes)}
    option = next((flag for flag, is_given in named.items() if is_given), None)
    if trace is None and option is not None:
        raise click.UsageError(f"{option} needs a trace whose prompts have blocks (hash_ids): name it with --trace.")
    if host_sizes and (len(routers) != 1 or host_tokens is not None):
        raise click.UsageError("--host-memory compares sizes with one --router, and without --host-tokens.")


def _answer_trace(question: ReplayQuestion, routers: Sequence[str], host_sizes: Sequence[str], form: str) -> None:
    if host_sizes:
        _try_sizes(question, Routing(routers[0]), host_sizes, form)
    elif routers:
        _compare(question, [Routing(each) for each in dict.fromkeys(routers)], form)
    else:
        _answer(question, form)


_OF_WORKLOAD = (
    *("requests_per_second", "prompt", "output", "spread", "shared_prefix", "burst", "burst_seconds", "burst_every"),
    "minutes",
)
"""The options that a trace replaces."""


def _past_question(
    target: str, seconds: float, url: str | None, namespace: str | None, access: ClusterAccess, asked: dict[str, Any]
) -> ReplayQuestion:
    """Return the question about a deployment's own time."""
    key = ObjectKey(namespace or default_namespace(access.file, access.context), target)
    body = cluster_of(access).inference_deployment(key)
    if body is None:
        raise InvalidInput(
            "NAME", target, f"There is no InferenceDeployment {key}: name another one, or its namespace with -n."
        )
    with progressing("reading") as progress:
        past = past_of(body, url, seconds, partial(progress, f"what came to {key}"))
    return of_deployment(body, past, asked["patience"], asked["seed"])


def _answer(question: ReplayQuestion, form: str) -> None:
    """Replay, and print what came of it."""
    with progressing("replaying") as progress:
        laws = list(replayed(question.replay, progress))
    say("note", question.notes)
    if form == "json":
        print_document(form, replay_document(question, laws))
    else:
        print_replay(screen(), question, laws)


def _compare(question: ReplayQuestion, ways: Sequence[Routing], form: str) -> None:
    """Serve the requests with each router, and print what came of it."""
    if not any(each.blocks for each in question.replay.arrivals):
        question = replace(question, notes=(*question.notes, NO_BLOCKS))
    with progressing("replaying") as progress:
        found = list(routed(question.replay, ways, progress))
    say("note", question.notes)
    if form == "json":
        print_document(form, routers_document(question, found))
    else:
        print_routers(screen(), question, found)


def _try_sizes(question: ReplayQuestion, routing: Routing, given: Sequence[str], form: str) -> None:
    """Serve the requests with each size of a cache in host memory, and print what came of it."""
    sizes = sizes_of(given)
    if not any(each.blocks for each in question.replay.arrivals):
        raise InvalidInput("--trace", question.source, f"{NO_BLOCKS} So nothing is known of what would be found.")
    with progressing("replaying") as progress:
        tried = list(tried_sizes(question, routing, sizes, progress))
    say("note", question.notes)
    if form == "json":
        print_document(form, sizes_document(question, tried))
    else:
        print_sizes(screen(), question, tried)


_USUAL = RebalancePolicy()


@dataclass(frozen=True, slots=True)
class Simulated:
    """A question as typed, by options of these names; None if left out. The preset gives what the workload lacks.

    ``startup`` and ``patience`` are in seconds, ``cooldown`` and ``window`` are those of ``spec.rebalancing``.
    """

    model: str
    gpu: str
    preset: str = PRESETS[0].name
    tp: int | None = None
    context_length: int | None = None
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
    options = TypedOptions(
        context_length=asked.context_length or _context(workload),
        concurrency=asked.concurrency,
        engine=asked.engine,
        split=split,
    )
    source = named(asked.model)
    question = direct_question(source.source, options) or manifest_question(source.source, options)
    types = meant_types((asked.gpu,)).types
    request = on_its_engine(replace(question, gpus=types, split=split)).request
    if asked.context_length is None and request.shape.context_tokens > request.model.max_context_tokens:
        request = replace(request, shape=replace(request.shape, context_tokens=request.model.max_context_tokens))
    found = answers(request, types, split)[0]
    if isinstance(found, Rejection):
        raise InvalidInput("gpu", asked.gpu, rejection_sentence(found))
    return request, found


def _context(workload: Workload) -> int:
    """Return a context that holds requests of twice the mean: a power of two, and the usual one at least."""
    longest, found = 2 * (workload.prompt_tokens + workload.output_tokens), DEFAULT_CONTEXT
    while found < longest:
        found *= 2
    return found


MOST_ROWS = 13
_MILLISECONDS = 1000


def _print_simulation(console: Console, simulation_run: SimulationRun, result: SimulationResult) -> None:
    print_lines(console, (result.summary, "", *_input_lines(simulation_run), ""))
    events = Listing((name("TIME"), prose("EVENT")))
    for event in result.events:
        events.add(clock(event.at), event.sentence)
    if result.events:
        print_listing(console, events)
    print_listing(console, _table(result.moments))
    print_lines(console, (_totals_line(result),))


def _input_lines(simulation_run: SimulationRun) -> Iterator[str]:
    kind, policy = simulation_run.kind, simulation_run.policy
    split, gpu = kind.place.split, kind.place.gpu.name
    yield (
        f"Replica: {kind.request.model.name} on {split.gpus} x {gpu}, {kind.limits.kv_tokens:,} KV tokens, "
        f"{kind.limits.max_num_seqs:,} sequence slots, steps of {kind.limits.max_batched_tokens:,} tokens, "
        f"context {kind.place.settings.max_model_len:,}."
    )
    yield f"Requests: {_workload_words(simulation_run.workload)}."
    yield (
        f"Policy: {policy.mode.value}, {policy.min_replicas} to {policy.max_replicas} replicas, "
        f"{simulation_run.replicas} at the beginning, {simulation_run.startup_seconds:g} s to start one; "
        f"clients wait {simulation_run.patience_seconds:g} s for a first token."
    )


def _workload_words(workload: Workload) -> str:
    burst = ""
    if workload.burst_factor > 1:
        burst = (
            f", {workload.burst_factor:g} times as many for {workload.burst_seconds:g} s every "
            f"{workload.burst_every_seconds:g} s"
        )
    shared = f", {workload.shared_prefix_tokens:,} of them shared" if workload.shared_prefix_tokens else ""
    return (
        f"{workload.requests_per_second:g} a second{burst}; prompts of {workload.prompt_tokens:,} tokens{shared}, "
        f"answers of {workload.output_tokens:,}, spread {workload.spread:g}; {workload.minutes:g} min"
    )


def _totals_line(result: SimulationResult) -> str:
    totals = result.totals
    return (
        f"{totals.arrived:,} requests: {totals.served:,} served, {totals.gave_up:,} gave up, {totals.lost:,} lost, "
        f"{totals.under_way:,} under way at the end; {totals.preemptions:,} preemptions; first token "
        f"{_times(totals.ttft)}, later tokens {_times(totals.tpot)} (median, 95th percentile)."
    )


def _times(spread: TimePercentiles | None) -> str:
    if spread is None:
        return "unknown"
    return f"{spread.median * _MILLISECONDS:,.0f} / {spread.p95 * _MILLISECONDS:,.0f} ms"


_FIGURES = ("KV IN USE", "KV TOKENS", "SLOTS", "WAITING", "REPLICAS (WANTED)", "TTFT", "TPOT")


def _table(moments: Sequence[Moment]) -> Listing:
    table = Listing((name("TIME"), *map(figure, _FIGURES)))
    for each in evenly(moments, MOST_ROWS):
        table.add(
            clock(each.at),
            f"{each.kv_cache_in_use:.0%}",
            f"{each.held_tokens:,} / {each.hold_tokens:,}",
            f"{each.running:,} / {each.sequence_slots:,}",
            f"{each.waiting:,}",
            f"{each.ready:,} ({each.wanted:,})",
            _times(each.ttft),
            _times(each.tpot),
        )
    return table


_DIGITS = 4


def simulation_document(simulation_run: SimulationRun, result: SimulationResult) -> dict[str, Any]:
    """Return the document. Times are in seconds since the beginning."""
    totals = result.totals
    return {
        "summary": result.summary,
        "release": __version__,
        "input": _input_document(simulation_run),
        "totals": {
            **{name: value for name, value in asdict(totals).items() if name not in ("ttft", "tpot")},
            "replica_seconds": round(totals.replica_seconds),
            "ttft_seconds": _spread(totals.ttft),
            "tpot_seconds": _spread(totals.tpot),
        },
        "events": [{**asdict(each), "kind": each.kind.value} for each in result.events],
        "moments": [_moment(each) for each in result.moments],
    }


def _input_document(simulation_run: SimulationRun) -> dict[str, Any]:
    """Return the input as it was simulated, defaults and the figures of the estimate included."""
    place, limits, policy = simulation_run.kind.place, simulation_run.kind.limits, simulation_run.policy
    return {
        "model": simulation_run.kind.request.model.name,
        "gpu": place.gpu.name,
        "gpus_per_replica": place.split.gpus,
        "context_tokens": place.settings.max_model_len,
        "kv_tokens": limits.kv_tokens,
        "weights_bytes_per_gpu": place.figures.weights_bytes,
        "kv_bytes_per_token_and_gpu": place.figures.kv_bytes_per_token,
        "max_num_seqs": limits.max_num_seqs,
        "max_batched_tokens": limits.max_batched_tokens,
        "workload": asdict(simulation_run.workload),
        "replicas": simulation_run.replicas,
        "min_replicas": policy.min_replicas,
        "max_replicas": policy.max_replicas,
        "mode": policy.mode.value,
        "window_seconds": policy.window_seconds,
        "cooldown_seconds": policy.cooldown_seconds,
        "startup_seconds": simulation_run.startup_seconds,
        "patience_seconds": simulation_run.patience_seconds,
        "scrape_seconds": simulation_run.scrape_seconds,
        "seed": simulation_run.seed,
    }


def _moment(moment: Moment) -> dict[str, Any]:
    figures = {name: value for name, value in asdict(moment).items() if name not in ("ttft", "tpot", "fullest")}
    return {
        **figures,
        "kv_cache_in_use": round(moment.kv_cache_in_use, _DIGITS),
        "fullest": round(moment.fullest, _DIGITS),
        "ttft_seconds": _spread(moment.ttft),
        "tpot_seconds": _spread(moment.tpot),
    }


def _spread(spread: TimePercentiles | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": round(spread.median, _DIGITS), "p95": round(spread.p95, _DIGITS)}
