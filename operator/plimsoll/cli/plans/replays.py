"""``plimsoll simulate`` of requests that were there: what is replayed, and the answer as a table and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from plimsoll import __version__
from plimsoll.cli.later import chosen_engine, manifest_question, place_of, schedule_of, spec_policy
from plimsoll.cli.listing import Listing, figure, name
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.types import answers
from plimsoll.cli.reading.files import why
from plimsoll.cli.reading.traces import read_trace
from plimsoll.cli.screen import print_lines, print_listing
from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import to_rfc3339
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.explain import rejection_sentence
from plimsoll.simulation.past import drawn_from
from plimsoll.simulation.replay import ENOUGH_PERCENT, Replay, Replayed, Routed, cut
from plimsoll.simulation.run import MOST_REPLICAS, ReplicaKind, SimulationRun, kind_of_replica

if TYPE_CHECKING:
    from plimsoll.cli.cluster.past import PastOfDeployment

Body = dict[str, Any]

_UNITS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0}

_MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class ReplayQuestion:
    """A replay in words: ``source`` is the file or the deployment, ``known`` the part of the time that is."""

    replay: Replay
    source: str
    known: float = 1.0
    begin: float | None = None
    notes: tuple[str, ...] = ()


def seconds_of(text: str) -> float:
    """Return the seconds of a span such as 7d, 24h or 90m.

    Raises:
        InvalidInput: it is none.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isdecimal() and int(number) > 0 and unit in _UNITS):
        raise InvalidInput("--from-prometheus", text, "Write a span such as 7d, 24h or 90m.")
    return int(number) * _UNITS[unit]


def of_trace(path: str, run: SimulationRun, host_tokens: int | None = None) -> ReplayQuestion:
    """Return the replay of a file of requests.

    A replica keeps the prompts of its KV cache. With ``host_tokens`` in host memory it keeps those if they are more,
    because host memory has a copy of what the KV cache has.

    Raises:
        InvalidInput: the file cannot be read, a line of it is wrong, or it cannot be replayed.
    """
    try:
        requests = read_trace(Path(path))
    except ValueError as error:
        if isinstance(error.__cause__, OSError):
            raise InvalidInput("--trace", path, f"It cannot be read: {why(error.__cause__)}.") from error
        fix = f"{str(error).removeprefix(path).lstrip(':, ')}. Correct the line, or remove it."
        raise InvalidInput("--trace", path, fix[:1].upper() + fix[1:]) from error
    kind = run.kind
    replay = Replay(
        kind=kind,
        arrivals=[cut(each, kind.room_tokens) for each in requests],
        seconds=requests[-1].at + 1.0,
        policy=run.policy,
        replicas=run.replicas,
        startup_seconds=run.startup_seconds,
        patience_seconds=run.patience_seconds,
        scrape_seconds=run.scrape_seconds,
        kept_tokens=max(kind.limits.kv_tokens, host_tokens or 0),
        seed=run.seed,
    )
    long, room = sum(each.prompt_tokens + each.output_tokens > kind.room_tokens for each in requests), kind.room_tokens
    words = f"{long:,} of {len(requests):,} requests are longer than the {room:,} tokens of a replica, and cut."
    return ReplayQuestion(replay, path, notes=(words,) if long else ())


NO_BLOCKS = "The trace names no blocks of prompts (hash_ids), so every replica knows as much of a prompt as any other."


def of_deployment(body: Body, past: PastOfDeployment, patience_seconds: float, seed: int) -> ReplayQuestion:
    """Return the replay of what a deployment served, on the replicas that it has now.

    Raises:
        InvalidInput: nothing is placed, nothing came, or it cannot be replayed.
        PlimsollError: the model cannot be read.
    """
    load, kind, notes = past.load, _kind_of(body), list[str]()
    policy, replicas = spec_policy(body)
    if policy.min_replicas == 0:
        notes.append("rebalancing.minReplicas 0 is replayed as 1: no gateway that holds requests is simulated.")
    if policy.max_replicas > MOST_REPLICAS:
        notes.append(f"rebalancing.maxReplicas {policy.max_replicas} is replayed as {MOST_REPLICAS}.")
    policy = replace(
        policy, min_replicas=max(1, policy.min_replicas), max_replicas=min(MOST_REPLICAS, policy.max_replicas)
    )
    startup = past.startup_seconds or load.startup_seconds
    if startup is None:
        notes.append(f"No start-up was ever seen: {FIRST_STARTUP_SECONDS:g} s are assumed.")
    replay = Replay(
        kind=kind,
        arrivals=[cut(each, kind.room_tokens) for each in drawn_from(load.steps, seed)],
        seconds=load.seconds,
        policy=policy,
        replicas=min(max(replicas, 1), policy.max_replicas),
        startup_seconds=startup or FIRST_STARTUP_SECONDS,
        patience_seconds=patience_seconds,
        schedule=schedule_of(body, load.begin),
        seed=seed,
    )
    head = body["metadata"]
    return ReplayQuestion(replay, f"{head['namespace']}/{head['name']}", load.known, load.begin, tuple(notes))


def _kind_of(body: Body) -> ReplicaKind:
    """Return a replica as it is placed now.

    Raises:
        InvalidInput: nothing is placed, or it does not fit any more.
    """
    placed = place_of(body)
    if placed is None:
        raise InvalidInput("NAME", body["metadata"]["name"], "It is not placed, so nothing is known of its replicas.")
    gpu, split = placed
    asked = TypedOptions(gpus=(gpu,), split=split, engine=chosen_engine(body))
    request = manifest_question("", asked, dict(body)).request
    found = answers(request, (gpu,), split)[0]
    if isinstance(found, Rejection):
        raise InvalidInput("NAME", body["metadata"]["name"], rejection_sentence(found))
    return kind_of_replica(request, found)


def print_routers(console: Console, question: ReplayQuestion, ways: Sequence[Routed]) -> None:
    """Print what each router brings: the prompts that are found, the times, and the replicas that are enough."""
    print_lines(console, (*question_lines(question), _kept(question), ""))
    columns = ("FOUND", "TTFT P50 MS", "TTFT P95 MS", "GOODPUT", "ERRORS", "REPLICAS ENOUGH")
    table = Listing((name("ROUTER"), *map(figure, columns)))
    for each in ways:
        table.add(each.routing.value, *routed_cells(question, each))
    print_listing(console, table)
    print_lines(console, ("", _comparison(ways)))


def routed_cells(question: ReplayQuestion, found: Routed) -> Iterator[str]:
    """Yield the prompts that are found, the times, the goodput, the errors and the replicas that are enough."""
    asked = found.asked
    yield f"{asked.found:.1f} %"
    for time in (asked.ttft_p50_seconds, asked.ttft_p95_seconds):
        yield "none" if time is None else f"{time * _MILLISECONDS:,.0f}"
    yield f"{asked.goodput:.1f} %"
    yield f"{asked.errors:.1f} %"
    yield f"over {question.replay.policy.max_replicas}" if found.fewest is None else f"{found.fewest}"


def _comparison(ways: Sequence[Routed]) -> str:
    """Return what the router that finds most brings, against the one that finds least."""
    least, most = (choose(ways, key=lambda each: each.asked.found) for choose in (min, max))
    enough = (f"{each.fewest or 'no number of'} replicas" for each in (most, least))
    return (
        f"Router {most.routing.value} finds {most.asked.found:.1f} % of the prompt tokens, and {next(enough)} are "
        f"enough; {least.routing.value} finds {least.asked.found:.1f} %, and {next(enough)} are."
    )


def _kept(question: ReplayQuestion) -> str:
    replay = question.replay
    return (
        f"{replay.replicas} replicas, each keeps {replay.kept_tokens or 0:,} tokens of prompts. Enough are those with "
        f"{ENOUGH_PERCENT:g} % goodput."
    )


def print_replay(console: Console, question: ReplayQuestion, laws: Sequence[Replayed]) -> None:
    """Print the answer: the table, the requests, and what is compared."""
    print_lines(console, (*question_lines(question), ""))
    table = Listing((name("LAW"), *map(figure, _FIGURES)))
    for each in laws:
        table.add(
            each.law,
            f"{each.goodput:.1f} %",
            f"{each.errors:.1f} %",
            f"{each.gpu_hours:,.1f}",
            "unknown" if each.usd is None else f"{each.usd:,.2f}",
            f"{each.changes:,}",
            f"{each.flips:,}",
            f"{each.fewest}-{each.most}" if each.fewest < each.most else f"{each.most}",
            "none" if each.ttft_p95_seconds is None else f"{each.ttft_p95_seconds * _MILLISECONDS:,.0f}",
        )
    print_listing(console, table)
    print_lines(console, ("", _verdict(laws)))


_FIGURES = ("GOODPUT", "ERRORS", "GPU-HOURS", "USD", "CHANGES", "FLIPS", "REPLICAS", "TTFT P95 MS")


def question_lines(question: ReplayQuestion) -> Iterator[str]:
    """Yield the requests, the replica and what counts as served."""
    replay, arrivals = question.replay, question.replay.arrivals
    kind, policy, count = replay.kind, replay.policy, len(replay.arrivals)
    prompt, output = (sum(map(attrgetter(each), arrivals)) / count for each in ("prompt_tokens", "output_tokens"))
    since = "" if question.begin is None else f" from {to_rfc3339(question.begin)}"
    known = "" if question.begin is None else f"; {question.known:.0%} of the time is known"
    yield (
        f"Requests of {question.source}: {count:,} in {_span(replay.seconds)}{since}{known}; prompts of "
        f"{prompt:,.0f} tokens, answers of {output:,.0f} (means)."
    )
    yield (
        f"Replica: {kind.request.model.name} on {kind.place.split.gpus} x {kind.place.gpu.name}; "
        f"{replay.startup_seconds:g} s to start one; {policy.min_replicas} to {policy.max_replicas} of them."
    )
    ttft, tpot = (f"{_MILLISECONDS * each:,.0f} ms" for each in (replay.ttft_seconds, replay.tpot_seconds))
    yield f"Goodput: served with the first token within {ttft}, and each later one within {tpot} on average."


def _span(seconds: float) -> str:
    for unit, words in (("d", "days"), ("h", "hours")):
        if seconds >= 2 * _UNITS[unit]:
            return f"{seconds / _UNITS[unit]:.3g} {words}"
    return f"{seconds / _UNITS['m']:.3g} min"


def _verdict(laws: Sequence[Replayed]) -> str:
    """Return the comparison of the live loop with the spec's number, the sentence that people ask for."""
    ours, own = laws[0], laws[1]
    more = round(100 * (ours.gpu_hours / own.gpu_hours - 1)) if own.gpu_hours else 0
    hours = f"{abs(more)} % {'more' if more > 0 else 'fewer'} GPU-hours than" if more else "as many GPU-hours as"
    return f"Mode Auto: {hours} {own.law}; goodput {ours.goodput:.1f} % instead of {own.goodput:.1f} %."


def replay_document(question: ReplayQuestion, laws: Sequence[Replayed]) -> dict[str, Any]:
    """Return the document. Times are in seconds, shares in per cent, and absent figures null."""
    return {**question_document(question, _verdict(laws)), "laws": [asdict(each) for each in laws]}


def routers_document(question: ReplayQuestion, ways: Sequence[Routed]) -> dict[str, Any]:
    """Return the document about routers. ``replicas_enough`` is null if the most replicas are not enough."""
    routers = [{"router": each.routing.value, "replicas_enough": each.fewest, **asdict(each.asked)} for each in ways]
    return {**question_document(question, _comparison(ways)), "routers": routers}


def question_document(question: ReplayQuestion, summary: str) -> dict[str, Any]:
    """Return the part of a document that is the same for every answer."""
    replay = question.replay
    return {
        "summary": summary,
        "release": __version__,
        "input": {
            "source": question.source,
            "begin": None if question.begin is None else to_rfc3339(question.begin),
            "known_percent": round(100 * question.known, 1),
            "requests": len(replay.arrivals),
            "seconds": round(replay.seconds),
            "model": replay.kind.request.model.name,
            "gpu": replay.kind.place.gpu.name,
            "gpus_per_replica": replay.kind.place.split.gpus,
            "replicas": replay.replicas,
            "min_replicas": replay.policy.min_replicas,
            "max_replicas": replay.policy.max_replicas,
            "startup_seconds": replay.startup_seconds,
            "patience_seconds": replay.patience_seconds,
            "ttft_seconds": replay.ttft_seconds,
            "tpot_seconds": replay.tpot_seconds,
            "has_schedule": replay.schedule is not None,
            "seed": replay.seed,
            "kept_tokens": replay.kept_tokens,
        },
        "notes": list(question.notes),
    }
