"""One English sentence for each decision, with its numbers. All sentences of the live loop come from this module."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from plimsoll.domain.units import agreed, counted, counted_of, format_gib, grouped
from plimsoll.rebalance.law.capacity import ConcurrencyLimit
from plimsoll.rebalance.state.allowance import Scope
from plimsoll.rebalance.state.decisions import DecisionReason, LoopDecision

_KNOWN = "{known_are} known"

_SENTENCES = {
    DecisionReason.MODE_OFF: "Nothing is decided because rebalancing is off.",
    DecisionReason.WITHIN_BAND: (
        "Nothing to change for {replicas}: {traffic}{waiting}; {kv_percent} % of the KV cache is in use."
    ),
    DecisionReason.ARRIVALS_EXCEED_CAPACITY: (
        "{needed_are} needed and {replicas} wanted so far: {traffic}{start}{gpus}{waiting}{stuck}{tuning}."
    ),
    DecisionReason.RISE_EXPECTED: (
        "{needed_are} needed and {replicas} wanted so far: {expected_are} expected in "
        "{minutes} min. This is from {whole_days} before at the same time; such forecasts of them err by "
        "{error_percent} %. Now {there_are} {traffic}{start}{waiting}{stuck}."
    ),
    DecisionReason.BACKLOG_TOO_LONG: (
        "{needed_are} needed to serve the requests that wait, and {replicas} wanted so far: "
        "{traffic}{gpus}{waiting}{stuck}{tuning}."
    ),
    DecisionReason.SUSTAINED_KV_PRESSURE: (
        "{needed_are} needed and {replicas} wanted so far: {kv_percent} % of the KV cache is in use ({used_tokens} of "
        "{held_tokens} tokens){waiting}{stuck}."
    ),
    DecisionReason.SUSTAINED_QUEUE: (
        "{needed_are} needed and {replicas} wanted so far: a queue stays at replicas that all serve{waiting}{stuck}"
        "{tuning}."
    ),
    DecisionReason.REQUESTS_WAIT_AT_GATEWAY: (
        "{at_gateway_wait} at the gateway, and no serving engine is known: {needed} instead of {replicas}{stuck}."
    ),
    DecisionReason.REPLICAS_STUCK: (
        "{stuck_replicas} did not get ready within {bound_seconds} s, so others are needed in their place: {traffic}."
    ),
    DecisionReason.REPLICA_SLOW: (
        "{pod} is slow{there}: a token takes {pod_ms} ms, and {usual_ms} ms are usual at its load ({ratio_percent} %), "
        "for {seconds} s{faults}. A new replica on another node takes its place before it ends."
    ),
    DecisionReason.REPLICA_SILENT: (
        "{pod} is ready{there} and has reported nothing usable for {seconds} s, while others do{faults}. A new replica "
        "on another node takes its place before it ends."
    ),
    DecisionReason.REPLACING_DOES_NOT_HELP: (
        "Waiting{wanted}: {pod}{there} is not replaced, because a replica that took the place of another one was no "
        "better. So it is not the node: look at the engine's log and at what its requests have in common."
    ),
    DecisionReason.MAKES_ROOM: (
        "{pod}{there} goes to another node, to make room for {whom}: somebody has approved that there. A new replica "
        "serves before it ends."
    ),
    DecisionReason.GIVES_WAY: (
        "{pod}{there} ends to make room for {whom}, which has a higher priority: somebody has approved that there. A "
        "replica is added again when the load needs it and there is room."
    ),
    DecisionReason.NO_ROOM_WAS_MADE: "No replica is added: no room was made for it.",
    DecisionReason.BATCH_LIMIT_BINDS: (
        "The engines run as many requests at the same time as they may, and could run more: {traffic}{waiting}{tuning}."
    ),
    DecisionReason.PROMPT_STEP_TOO_SMALL: (
        "Prompts limit the replicas: they take {prompt_percent} % of the time, and larger steps compute them faster: "
        "{traffic}{waiting}{tuning}."
    ),
    DecisionReason.PROMPT_STEP_TOO_LARGE: (
        "Prompts of others make answers slow: a token takes {measured_ms} ms, {promised_ms} ms are promised, and "
        "without prompts it would take {decode_ms} ms. In smaller steps a token takes {then_ms} ms: {traffic}{waiting}"
        "{tuning}."
    ),
    DecisionReason.PREEMPTION_STORM: (
        "{needed_are} needed and {replicas} wanted so far: requests lose their KV cache to others and are computed "
        "again; {kv_percent} % of the KV cache is in use{waiting}{stuck}."
    ),
    DecisionReason.LOAD_IMBALANCED: (
        "More replicas would not help: {pod_waiting_wait} at {pod}, and the others have room{shares}. Look at the "
        "router or the gateway: it sends too much there."
    ),
    DecisionReason.RANKS_IMBALANCED: (
        "More replicas would not help: rank {rank} of {pod} has {rank_percent} % of its KV cache in use, and the "
        "others have {mean_percent} % on average{queues}. If a gateway chooses the rank, it sends too much there. If "
        "the engine does, it counts requests and not their tokens: a smaller spec.contextLength bounds what one rank "
        "can get."
    ),
    DecisionReason.PAGE_LIVELOCK: (
        "{needed_are} needed besides {locked_replicas} without an answer: at {pod} {pod_waiting_wait}, "
        "{pod_running} run, and {pod_percent} % of the KV cache is in use. A request may need more pages at the same "
        "moment than the cache has: the model's state takes as many of them for a short request as for a long one. "
        "Lower spec.contextLength, or turn the prefix cache off in spec.engine.extraArgs, and restart {pod}."
    ),
    DecisionReason.PROMISE_MISSED: (
        "More replicas would not help: {figure} is {measured_ms} ms and {promised_ms} ms are promised, although "
        "{traffic}{waiting}{served}."
    ),
    DecisionReason.BELOW_MIN_REPLICAS: "More replicas are needed: {replicas} is fewer than the minimum of {min}.",
    DecisionReason.SCHEDULED_MINIMUM: (
        "More replicas are needed: {replicas} is fewer than the {min} that spec.rebalancing.schedule asks for{ready}."
    ),
    DecisionReason.NOT_ROUTED: (
        "A replica is needed although no request has come: none reaches the endpoint picker, so none could start one."
    ),
    DecisionReason.SUSTAINED_SLACK: (
        "{enough_have} been enough for {seconds} s, with room to spare: {traffic}; {kv_percent} % of the "
        "KV cache is in use."
    ),
    DecisionReason.NO_REQUESTS: "No replica is needed: no request has come for {seconds} s.",
    DecisionReason.NO_REQUEST_WAITS: "No replica runs, and no request is known to wait.",
    DecisionReason.ABOVE_MAX_REPLICAS: "Fewer replicas are needed: {replicas} is more than the maximum of {max}.",
    DecisionReason.PROMISE_OUT_OF_REACH: (
        "Another placement is needed, because more replicas would not help: {figure} is {measured_ms} ms and "
        "{promised_ms} ms are promised. On {place} a request alone takes {alone_ms} ms ({slowness_percent} % of what "
        "the performance model says){faster}{bills}{engines}."
    ),
    DecisionReason.CHEAPER_PLACE: (
        "The same load would {cost}, with {to_replicas}{of_new} on {to_place} instead of {replicas}{of_old} on "
        "{place}: {traffic}{engines}."
    ),
    DecisionReason.OTHER_ENGINE_FITS: (
        "{from_engine} has no place for all replicas, and {to_engine} has one: {to_replicas} on {to_place}{only}."
    ),
    DecisionReason.NEED_OUTGREW_PLACEMENT: (
        "Another placement is needed: a GPU must hold {needed_bytes} and the one placed gives {budget_bytes}."
    ),
    DecisionReason.PLACEMENT_TOO_SMALL: (
        "Another placement is needed: an engine got a KV cache of {held_tokens} tokens, and {needed_tokens} are "
        "declared."
    ),
    DecisionReason.METRICS_UNAVAILABLE: "Waiting: there are no usable metrics.",
    DecisionReason.METRICS_INVALID: f"Waiting: {{pod}} reported a number that cannot be; {_KNOWN}.",
    DecisionReason.METRICS_MISSING: f"Waiting: there are no metrics for {{pod}}; {_KNOWN}.",
    DecisionReason.METRICS_STALE: (f"Waiting: the newest sample of {{pod}} is {{age_seconds}} s old; {_KNOWN}."),
    DecisionReason.WINDOW_NOT_COVERED: f"Waiting: there is only one sample of {{pod}} so far; {_KNOWN}.",
    DecisionReason.REPLICAS_STARTING: "Waiting{wanted}: {ready_are} ready{startup}.",
    DecisionReason.COOLING_DOWN: (
        "Waiting{wanted}: the last change was {seconds} s ago, and {bound_seconds} s must pass after it."
    ),
    DecisionReason.HOURLY_BUDGET_SPENT: "Waiting{wanted}: the last hour saw {changes_made} of {bound} allowed.",
    DecisionReason.REVERSALS_SPENT: (
        "Waiting{wanted}: in the last hour {reversals_were} taken back, and {bound_are} allowed."
    ),
    DecisionReason.ADDITIONS_DO_NOT_SERVE: (
        "Nothing is added{wanted}: no replica of {last_additions} began to serve{said}. {kept} taken back{tried}."
    ),
    DecisionReason.ADDITIONS_DO_NOT_HELP: (
        "Nothing is added{wanted}: with {last_additions} {called} went from {before} to {after}, and no more requests "
        "come. What changed nothing is taken back{tried}."
    ),
    DecisionReason.ADDITION_NOT_PROVEN: (
        "Waiting{wanted}: with {last_additions} {called} went from {before} to {after}, and it is not known yet "
        "whether that helps. It stays{tried}."
    ),
    DecisionReason.ADDITIONS_PER_HOUR_SPENT: (
        "Waiting{wanted}: {added_replicas} were added in the last hour, and spec.rebalancing.limits.additionsPerHour "
        "allows {bound}."
    ),
    DecisionReason.DOLLARS_PER_HOUR_SPENT: (
        "Waiting{wanted}: all replicas would cost {dollars} US dollars an hour, and "
        "spec.rebalancing.limits.dollarsPerHour allows {bound}."
    ),
    DecisionReason.AT_MAX_REPLICAS: "Waiting{wanted}: there are as many replicas as allowed, {max}.",
    DecisionReason.AT_MIN_REPLICAS: "Waiting{wanted}: there are as few replicas as allowed, {min}{schedule}.",
    DecisionReason.SCALED_EXTERNALLY: (
        "Waiting{wanted}: spec.rebalancing.scale is External, so another controller sets the number of replicas."
    ),
    DecisionReason.SCALE_CONTESTED: (
        "Waiting{wanted}: spec.replicas is changed again and again, so nothing is added or removed here."
    ),
    DecisionReason.NO_PLACE_FOUND: "Waiting{wanted}: no place was found for it{nearest}.",
    DecisionReason.OTHERS_CAN_MAKE_ROOM: (
        "Waiting{wanted}: no GPUs are free for it. Others can make room within {minutes} min ({how}): {others}. People "
        "decide about that{done}; as soon as GPUs are free, the replica is added."
    ),
    DecisionReason.NO_FASTER_PLACE: (
        "Waiting{wanted}: {figure} is {measured_ms} ms and {promised_ms} ms are promised. No place that the spec "
        "allows is expected to keep the promise and to be a fifth faster than {place}, where a request alone takes "
        "{alone_ms} ms."
    ),
    DecisionReason.MOVE_UNDER_WAY: (
        "Waiting{wanted}: a move or a change of settings is under way, and old replicas serve until new ones do."
    ),
    DecisionReason.OUTSIDE_MAINTENANCE_WINDOW: (
        "Waiting{wanted}: no maintenance window is open. The next one opens at {opens}, {minutes} min after this was "
        "decided."
    ),
    DecisionReason.FLEET_BUDGET_SPENT: (
        "Waiting{wanted}: the last hour saw {moves_made} {scope}, and the operator allows {bound}."
    ),
    DecisionReason.SUSPENDED_FOR_CLUSTER: (
        "Waiting: rebalancing is suspended for the whole cluster. Nothing is decided, and no approved proposal is "
        "carried out."
    ),
}


_LIMITS = {
    ConcurrencyLimit.KV_CACHE: "the KV cache limits it",
    ConcurrencyLimit.BATCH: "--max-num-seqs limits it",
    ConcurrencyLimit.TOKEN_TIME: "the promised time per token limits it",
    ConcurrencyLimit.FIRST_TOKEN_TIME: "the promised time to the first token limits it",
}


_SCOPES = {
    Scope.CLUSTER: "of all deployments",
    Scope.NAMESPACE: "in this namespace",
    Scope.DEPLOYMENT: "of this deployment",
}


_TIMES = {"ttft": "time to the first token", "tpot": "time per token"}

_FIGURES = {
    **{name: f"the mean {words}" for name, words in _TIMES.items()},
    "kv_percent": "the used percent of the KV cache",
    "waiting": "the number of requests that wait",
    "preempted_percent": "the percent of requests that lose their KV cache",
    "ttft_ms": "the mean time to the first token in ms",
    "tpot_ms": "the mean time per token in ms",
}

_IF_KNOWN = (
    ("done", "by_loop", ", and an approval has the operator do it"),
    ("start", "start_percent", "; another is started at {start_percent} % of that"),
    ("served", "backlog", ", and the replicas that there are serve them before a new one would serve"),
    ("startup", "startup_seconds", "; a start-up is expected to take {startup_seconds} s"),
    ("ready", "ready_by", ", ready by {ready_by} (a start-up takes {startup_seconds} s)"),
    ("schedule", "scheduled", " (spec.rebalancing.schedule)"),
    ("queues", "rank_waiting", "; {rank_waiting_wait} there, and {mean_waiting} at each of the others"),
    ("there", "node", " on node {node}"),
    ("faults", "fault", ", and its GPUs report {fault}"),
    ("shares", "share_percent", "; {share_percent} % of the requests come to it, and {equal_percent} % are its share"),
    ("faster", "to_ms", "; {to_replicas}{of_new} on {to_place} would take {to_ms} ms"),
    (
        "engines",
        "to_kv_tokens",
        (
            ". A replica of {to_engine} holds {to_kv_tokens} tokens of KV cache there and carries {to_per_minute} of "
            "these requests a minute; one of {from_engine} holds {from_kv_tokens} here"
        ),
    ),
    ("only", "only_bill", ", for {only_bill} US dollars an hour"),
    ("bills", "bill", ", for {to_bill} US dollars an hour instead of {bill}"),
    (
        "tuning",
        "to_sequences",
        "; --max-num-seqs {to_sequences} instead of {sequences} lets a replica carry {to_capacity_per_minute}",
    ),
    (
        "tuning",
        "to_step",
        "; --max-num-batched-tokens {to_step} instead of {step} lets a replica carry {to_capacity_per_minute}",
    ),
)
"""Parts of the sentences that are there only if a number is known: the part, the number, and the words."""


_NOTHING_SAID = " (nothing says why: look at the events and the log of a pod that is not ready)"
_NOT_SERVING = "What does not serve is"

_OF_FLAGS = frozenset(("step", "to_step", "sequences", "to_sequences"))
"""Numbers that stand next to a flag, and are written as it takes them."""


def sentence(decision: LoopDecision) -> str:
    """Return a sentence with the decision and its reason. It does not say whether the decision is carried out.

    Raises:
        KeyError: the decision lacks a number that its sentence needs.
    """
    numbers = dict(decision.numbers)
    texts = {name: str(value) if name in _OF_FLAGS else _text(name, value) for name, value in decision.numbers}
    texts |= _about_gateway(numbers)
    if "percentile" in numbers:
        texts["figure"] = f"the {numbers['percentile']}th percentile of the {_TIMES[str(numbers['figure'])]}"
    known = _counts(numbers) | _about_stuck(numbers) | _of_engines(numbers) | texts
    parts = {"wanted": "", "stuck": "", "waiting": "", **dict.fromkeys((part for part, _, _ in _IF_KNOWN), "")}
    parts |= {part: words.format_map(known) for part, name, words in _IF_KNOWN if name in numbers}
    said = {"said": " ({words})" if numbers.get("words") else _NOTHING_SAID}
    said |= {"kept": "One goes on trying until {until}, and others are" if "until" in numbers else _NOT_SERVING}
    said |= {"tried": "; the next try comes at {next_try}" if numbers.get("next_try") else ""}
    parts |= {part: words.format_map(known) for part, words in said.items()}
    parts |= {"cost": _cost(numbers), "traffic": _traffic(numbers), "gpus": _gpus(numbers), "others": _others(numbers)}
    text = _SENTENCES[decision.reason].format_map(parts | known)
    return text[:1].upper() + text[1:]


def _of_engines(numbers: Mapping[str, int | str]) -> dict[str, str]:
    """Return the words that name the engines of replicas, if the new ones have another engine."""
    names = {"of_new": "to_engine", "of_old": "from_engine"}
    return {part: f" of {numbers[name]}" if name in numbers else "" for part, name in names.items()}


def _traffic(numbers: Mapping[str, int | str]) -> str:
    if "prompt_tokens" not in numbers:
        return "nothing is known of the requests yet"
    prompt, output = grouped(numbers["prompt_tokens"]), grouped(numbers["output_tokens"])
    lengths = f"prompts of {prompt} and answers of {output} tokens"
    if "capacity_per_minute" not in numbers:
        return f"requests with {lengths}"
    limit = _LIMITS[ConcurrencyLimit(str(numbers["limit"]))]
    return (
        f"{counted(numbers['arrivals_per_minute'], 'request')} a minute with {lengths}, of which a replica carries "
        f"{grouped(numbers['capacity_per_minute'])} ({limit})"
    )


def _cost(numbers: Mapping[str, int | str]) -> str:
    """Return what a cheaper place saves. On nodes that are paid for already, nothing is spent that is not spent now."""
    if "saving_percent" not in numbers:
        return ""
    if Decimal(numbers["to_bill"]) == 0:
        return f"use nodes that are paid for already, and {numbers['bill']} US dollars an hour would end"
    bills = f"{numbers['to_bill']} US dollars an hour instead of {numbers['bill']}"
    return f"cost {bills} ({numbers['saving_percent']} % less)"


def _gpus(numbers: Mapping[str, int | str]) -> str:
    parts = (("memory", "memory_busy_percent"), ("tensor cores", "tensor_busy_percent"))
    busy = [f"{part} {numbers[name]} %" for part, name in parts if name in numbers]
    return f"; busy on the GPUs: {', '.join(busy)}" if busy else ""


def _others(numbers: Mapping[str, int | str]) -> str:
    if "ended" in numbers:
        return f"{_text('replicas', numbers['ended'])} of lower priority would end"
    return f"{_text('replicas', numbers.get('moved', 0))} would move to other nodes"


def _about_stuck(numbers: Mapping[str, int | str]) -> dict[str, str]:
    count = numbers.get("stuck")
    if not isinstance(count, int):
        return {}
    words = _text("replicas", count)
    return {"stuck_replicas": words, "locked_replicas": words}


def _about_gateway(numbers: Mapping[str, int | str]) -> dict[str, str]:
    """Return the requests that wait, if some of them are in no engine yet."""
    if "at_gateway" not in numbers or "waiting" not in numbers:
        return {}
    waiting = _with_verb(numbers["waiting"], "request", "waits", "wait")
    return {"waiting": f"; {waiting}, {numbers['at_gateway']} of them at the gateway"}


_COUNTED = {
    "whole_days": ("days", "day", "", ""),
    "changes_made": ("changes", "change", "", ""),
    "last_additions": ("additions", "addition", "", ""),
    "added_replicas": ("added", "replica", "", ""),
    "needed_are": ("needed", "replica", "is", "are"),
    "at_gateway_wait": ("at_gateway", "request", "waits", "wait"),
    "pod_waiting_wait": ("pod_waiting", "request", "waits", "wait"),
    "rank_waiting_wait": ("rank_waiting", "request", "waits", "wait"),
    "expected_are": ("expected_per_minute", "request", "a minute is", "a minute are"),
}
"""Parts of the sentences that are a number, its noun and, if it has one, its verb."""

_PARTS = {
    "ready_are": ("ready", "replicas", "replica", "is", "are"),
    "enough_have": ("enough", "replicas", "replica", "has", "have"),
    "known_are": ("fresh", "ready", "ready replica", "is", "are"),
}
"""The same for a number of several things."""


def _counts(numbers: Mapping[str, int | str]) -> dict[str, str]:
    parts = {part: _with_verb(numbers[name], *words) for part, (name, *words) in _COUNTED.items() if name in numbers}
    for name, (part, whole, *words) in _PARTS.items():
        if part in numbers and whole in numbers:
            parts[name] = counted_of(numbers[part], numbers[whole], *words)
    if "bound" in numbers:
        parts["bound_are"] = f"{numbers['bound']} {agreed(numbers['bound'], 'is', 'are')}"
    parts["there_are"] = agreed(numbers.get("arrivals_per_minute", ""), "there is", "there are")
    if "moves" in numbers:
        what = agreed(numbers["moves"], "move or change", "moves and changes")
        parts["moves_made"] = f"{numbers['moves']} {what} of settings"
    if "reversals" in numbers:
        what = agreed(numbers["reversals"], "removal, move or change", "removals, moves or changes")
        verb = agreed(numbers["reversals"], "was", "were")
        parts["reversals_were"] = f"{numbers['reversals']} {what} of settings {verb}"
    return parts


def _with_verb(number: int | str, noun: str, one: str, many: str) -> str:
    return f"{counted(number, noun)} {agreed(number, one, many)}".rstrip()


def _text(name: str, value: int | str) -> str:
    match name, value:
        case (("replicas" | "needed" | "to_replicas"), int(count)):
            return counted(count, "replica")
        case "stuck", int(count):
            return f"; {count} of them {agreed(count, 'does', 'do')} not get ready" if count else ""
        case "waiting", int(count):
            return f"; {_with_verb(count, 'request', 'waits', 'wait')}" if count else ""
        case (("needed_bytes" | "budget_bytes"), int(count)):
            return format_gib(count)
        case (("figure" | "called"), str(figure)):
            return _FIGURES[figure]
        case "pod", str(pod):
            return f"pod {pod}" if pod else "a pod"
        case "nearest", str(why):
            return f"; nearest: {why}" if why else ""
        case "scope", str(scope):
            return _SCOPES[Scope(scope)]
        case "wanted", str(reason):
            return f" ({reason})"
        case _:
            return grouped(value)
