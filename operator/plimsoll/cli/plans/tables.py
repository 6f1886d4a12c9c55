"""Tables for people: the plan, the terms of an estimate, the rejected candidates. And manifests for kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
import yaml
from rich.console import Console

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.api.v1alpha1.status import (
    ChosenEngineStatus,
    EstimateStatus,
    HostStatus,
    PerformanceStatus,
    PlacementStatus,
    PoolStatus,
    RejectionStatus,
    SizeOptionStatus,
    SizeStatus,
)
from plimsoll.cli.answers.cache_words import NO_CACHE
from plimsoll.cli.listing import Listing, figure, name, prose
from plimsoll.cli.screen import print_heading, print_lines, print_listing
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.units import GIB, counted
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.explain import unhealthy_words
from plimsoll.status.words.placed import host_cache_words, host_layers_words, speed_words
from plimsoll.status.words.prices import billing_words

if TYPE_CHECKING:
    from plimsoll.cli.planning import PlannedStatus  # it takes long to import

_FIT = {"Sure": "fits for sure", "Probable": "fits only probably", "No": "does not fit"}


def print_plan(console: Console, outcomes: Sequence[PlannedStatus]) -> None:
    """Print one line per deployment, and one for each further pool of it. The bill is that of all its replicas."""
    figures = map(figure, ("TP", "REPLICAS", "GiB/GPU", "KV TOKENS", "TTFT", "TPOT", "$/h"))
    table = Listing((name("DEPLOYMENT"), name("PLACED"), name("GPU"), *figures))
    for outcome in outcomes:
        placement, estimate, pools = outcome.status.placement, outcome.status.estimate, outcome.status.pools or ()
        title = f"{outcome.namespace}/{outcome.name}"
        table.add(
            title,
            f"no: {outcome.reason}" if outcome.reason else "yes",
            "-" if placement is None else placement.gpu_type,
            "-" if placement is None else _split_of(placement),
            str(pools[0].replicas if pools else 0),
            "-" if estimate is None else estimate.gib_per_gpu,
            "-" if estimate is None else f"{estimate.kv_capacity_tokens:,}",
            *_times(None if placement is None else placement.performance),
            "-" if placement is None else placement.hourly_price or "-",
        )
        for pool in pools[1:]:
            tokens = "-" if pool.kv_tokens_predicted is None else f"{pool.kv_tokens_predicted:,}"
            table.add(title, "also", pool.gpu_type, _split_of(pool), str(pool.replicas), "-", tokens, "-", "-", "-")
    print_listing(console, table)
    times = (each.status.placement.performance for each in outcomes if each.status.placement is not None)
    if not all(found is None or found.validated for found in times):
        print_lines(console, ("?: no measurements on GPUs of this class validate the time.",))


def _times(found: PerformanceStatus | None) -> tuple[str, str]:
    """The times to the first token and per token, with a question mark if they are not validated."""
    if found is None:
        return "-", "-"
    mark = "" if found.validated else "?"
    return f"{found.ttft_milliseconds:,} ms{mark}", f"{found.tpot_milliseconds:,} ms{mark}"


def print_appraisal(console: Console, appraisal: Appraisal | None) -> None:
    """Print how much a better plan of deployments that were decided together might save, by the rules of placement.

    The price of seniority is printed too, if there is one.
    """
    if appraisal is None:
        return
    if appraisal.seniority_price:
        fewer = counted(appraisal.seniority_price, "replica")
        note = "would wait if age did not count within a priority (fleet.overload: MostPlaced)."
        print_lines(console, (f"{fewer} fewer {note}",))
    if appraisal.gap is None or appraisal.deployments == 1:
        return
    proof = f"No other plan by the same rules saves more than {appraisal.gap:.1%}."
    print_lines(console, (f"{appraisal.deployments} deployments were decided together. {proof}",))


def print_details(console: Console, status: InferenceDeploymentStatus, *, in_full: bool = False) -> None:
    """Print the estimate, rejections and remedies of one deployment; ``in_full`` as for :func:`print_rejections`."""
    if status.estimate is not None:
        print_estimate(console, status.estimate)
    if status.placement is not None:
        held = 0 if status.estimate is None else status.estimate.kv_capacity_tokens
        _print_placement(console, status.placement, held)
    if status.size is not None:
        print_lines(console, (size_words(status.size),))
    if status.engine is not None:
        print_lines(console, (f"Engine: {words}" for words in engine_words(status.engine)))
    if status.rejections:
        print_rejections(console, status.rejections, in_full=in_full)
    _print_messages(console, "What would help:", [each.message for each in status.remedies or ()])
    _print_messages(console, "What would make it cheaper:", [each.message for each in status.suggestions or ()])


def _print_messages(console: Console, title: str, messages: Sequence[str]) -> None:
    if messages:
        print_lines(console, (title,), "bold")
    print_lines(console, (f"  - {message}" for message in messages))


def _print_placement(console: Console, placement: PlacementStatus, gpu_tokens: int) -> None:
    each, source = placement.hourly_price_per_replica, placement.price_source
    if each is not None:
        paid = billing_words(placement.billing)
        print_lines(console, (f"Price: ${each}/h for one replica ({source}){paid}.",))
    if placement.performance is not None:
        print_lines(console, (f"Speed: {speed_words(placement.performance)}.",))
    if placement.host is not None:
        print_lines(console, (_host(placement.host),))
        if placement.host.cache is not None:
            print_lines(console, (host_cache_words(placement.host.cache, gpu_tokens),))
        if placement.host.layers is not None:
            print_lines(console, (host_layers_words(placement.host.layers),))
    print_lines(console, (f"Each replica runs up to {_at_once(placement)}.",))
    print_lines(console, (f"Warning: {warning}" for warning in placement.warnings or ()), "yellow")


def _at_once(placement: PlacementStatus) -> str:
    engines, each = placement.data_parallel or 1, placement.engine.max_num_seqs
    words = f"{engines * each} requests at the same time"
    return words if engines == 1 else f"{words}, {each} on each of {engines} engines"


def engine_words(engine: ChosenEngineStatus) -> tuple[str, ...]:
    """The chosen engine with its release and why it was taken, and why each other one was not."""
    return (f"{engine.name} {engine.version}. {engine.message}", *(each.message for each in engine.others or ()))


def size_words(size: SizeStatus) -> str:
    """The chosen size, and the others with their bills."""
    options = sorted(
        size.options or (),
        key=lambda each: (each.replicas != size.replicas, each.missing or 0, float(each.hourly_price or 0)),
    )
    return f"Size: {'; '.join(map(_option_words, options))}."


def _option_words(option: SizeOptionStatus) -> str:
    words = f"{counted(option.replicas, 'replica')} of {counted(option.concurrency, 'request')}"
    if option.missing:
        return f"{words}: {option.missing} would find no place"
    price = "no known price" if option.hourly_price is None else f"${option.hourly_price}/h"
    return f"{words} on {', '.join(option.places or ())}: {price}"


def _host(host: HostStatus) -> str:
    terms = " + ".join(f"{term.name} {term.size_bytes / GIB:.2f}" for term in host.terms)
    needed, cpus = f"{host.memory_bytes / GIB:.0f} GiB", _cores(host.cpu_millis)
    said = f"Host of one replica: {cpus} CPUs and {needed} of memory = {terms} GiB, rounded up."
    if (host.requested_cpu_millis, host.requested_memory_bytes) == (host.cpu_millis, host.memory_bytes):
        return said
    requested = f"{_cores(host.requested_cpu_millis)} CPUs and {host.requested_memory_bytes / GIB:.4g} GiB"
    return f"{said} Requested by spec.podTemplate: {requested}."


def _cores(millis: int) -> str:
    return f"{millis / 1000:.3f}".rstrip("0").rstrip(".")


def print_estimate(console: Console, estimate: EstimateStatus) -> None:
    """Print the terms of one GPU."""
    count = estimate.pipeline_parallel or 1
    cut = f"tensor parallel {estimate.tensor_parallel}{f', {count} stages' if count > 1 else ''}"
    cut += f", data parallel {estimate.data_parallel}" if estimate.data_parallel else ""
    print_lines(console, (f"One GPU of {estimate.gpu_type} at {cut}:",), "bold")
    table = Listing((name("TERM"), figure("GiB")))
    for term, size in _terms(estimate):
        if size is not None:
            table.add(term, f"{size / GIB:.2f}")
    table.add("needed", f"{estimate.computed_bytes / GIB:.2f}", style="bold")
    if estimate.override_bytes is not None:
        table.add("needed, by override", f"{estimate.override_bytes / GIB:.2f}", style="yellow")
    table.add("the engine may use", f"{estimate.budget_bytes / GIB:.2f}")
    print_listing(console, table)
    if estimate.fit is not None:
        print_lines(console, (f"It {_FIT[estimate.fit]}: {_band(estimate)}.",))
    print_lines(console, (_cache(estimate),))


def _cache(estimate: EstimateStatus) -> str:
    """The tokens of the cache; an engine without one needs none."""
    if not estimate.kv_needed_tokens:
        return NO_CACHE
    return (
        f"KV cache: {estimate.kv_needed_tokens:,} tokens needed, {estimate.kv_capacity_tokens:,} would fit. "
        f"One more token in all layers with attention takes {estimate.kv_bytes_per_token:,} bytes of a GPU."
    )


def _terms(estimate: EstimateStatus) -> tuple[tuple[str, int | None], ...]:
    return (
        ("weights", estimate.weights_bytes),
        ("LoRA slots", estimate.adapters_bytes),
        ("KV cache", estimate.kv_cache_bytes),
        ("activations", estimate.activations_bytes),
        ("CUDA graphs", estimate.cuda_graphs_bytes),
        ("overhead", estimate.overhead_bytes),
        ("learned", estimate.learned_bytes),
        ("margin", estimate.margin_bytes),
    )


def _band(estimate: EstimateStatus) -> str:
    high = estimate.computed_bytes
    expected = high - estimate.margin_bytes if estimate.expected_bytes is None else estimate.expected_bytes
    low = expected - (estimate.slack_bytes or 0)
    return f"expected {expected / GIB:.2f} GiB, between {low / GIB:.2f} and {high / GIB:.2f}"


def _split_of(entry: PlacementStatus | PoolStatus | RejectionStatus) -> str:
    """The tensor-parallel degree, the stages and engines if there are several, and EP if experts are whole."""
    stages = entry.pipeline_parallel or 1
    cut = str(entry.tensor_parallel) if stages == 1 else f"{entry.tensor_parallel} x PP{stages}"
    cut = f"{cut} x DP{entry.data_parallel}" if entry.data_parallel else cut
    return f"{cut} EP" if entry.expert_parallel else cut


def print_rejections(console: Console, rejections: Sequence[RejectionStatus], *, in_full: bool = False) -> None:
    """Print every other candidate and the reason against it.

    If not in full, splits of one GPU type with the same reason share a row with the words of the first of them.
    """
    alike: dict[tuple[str, str, str], list[RejectionStatus]] = {}
    for each in rejections:
        alike.setdefault((each.gpu_type, each.reason, _split_of(each) if in_full else ""), []).append(each)
    shares = " (of several TP, the first one's figures; -o json has all)" if len(alike) < len(rejections) else ""
    print_lines(console, (f"Not taken{shares}:",), "bold")
    table = Listing((name("GPU"), figure("TP"), name("REASON"), prose("WHY")))
    for (gpu_type, reason, _), found in alike.items():
        table.add(gpu_type, ", ".join(map(_split_of, found)), reason, found[0].message)
    print_listing(console, table)


def print_left_out(console: Console, fleet: Fleet) -> None:
    """Print the GPUs that are not used, by node and with their reasons; nothing if there are none."""
    if not fleet.ignored and not fleet.unhealthy:
        return
    print_heading(console, "nodes left out")
    print_lines(console, (f"{node.name}: {node.reason} ({node.detail})" for node in fleet.ignored))
    print_lines(console, (f"{less.name}: {unhealthy_words(less)}" for less in fleet.unhealthy))


def print_objects(bodies: Iterable[Any]) -> None:
    """Print manifests, as kubectl takes them."""
    click.echo(yaml.safe_dump_all(bodies, sort_keys=False), nl=False)
