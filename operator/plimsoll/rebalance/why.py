"""One English sentence for each decision, with its numbers. All sentences of the live loop come from this module."""

from __future__ import annotations

from plimsoll.domain.units import format_gib
from plimsoll.rebalance.decisions import DecisionReason, LoopDecision

_BAND = (
    "over {seconds} s the requests needed {pressure_percent} to {peak_percent} % of the KV cache, "
    "and {bound_percent} % throughout would be too much"
)
_KNOWN = "{fresh} of {ready} ready replicas are known"

_SENTENCES = {
    DecisionReason.MODE_OFF: "Nothing is decided because rebalancing is off.",
    DecisionReason.WITHIN_BAND: f"Nothing to change: {_BAND}.",
    DecisionReason.THROUGHPUT_NEEDED: (
        f"Nothing to change: {_BAND}; the traffic is still near the one that last needed a replica more."
    ),
    DecisionReason.SUSTAINED_KV_PRESSURE: (
        "One replica more is needed: for {seconds} s the requests needed at least {pressure_percent} % of the KV cache "
        "of {replicas} ({demanded_tokens} of {held_tokens} tokens{unknown}), and {bound_percent} % is too much."
    ),
    DecisionReason.SUSTAINED_QUEUE: (
        "One replica more is needed: for {seconds} s at least {waiting} requests waited at {replicas}{unknown}, and "
        "{bound} are too many."
    ),
    DecisionReason.BELOW_MIN_REPLICAS: "One replica more is needed: {replicas} is fewer than the minimum of {min}.",
    DecisionReason.SUSTAINED_SLACK: (
        "One of {replicas} is superfluous: for {seconds} s the requests would have needed at most {pressure_percent} % "
        "of the KV cache of the remaining {remaining} ({demanded_tokens} of {held_tokens} tokens), and up to "
        "{bound_percent} % is safe."
    ),
    DecisionReason.ABOVE_MAX_REPLICAS: "One replica less is needed: {replicas} is more than the maximum of {max}.",
    DecisionReason.NEED_OUTGREW_PLACEMENT: (
        "Another placement is needed: a GPU must hold {needed_bytes} and the one placed gives {budget_bytes}."
    ),
    DecisionReason.PLACEMENT_TOO_SMALL: (
        "Another placement is needed: an engine got a KV cache of {held_tokens} tokens, and {needed_tokens} are "
        "declared."
    ),
    DecisionReason.METRICS_UNAVAILABLE: "Waiting: Prometheus gave no usable answer.",
    DecisionReason.METRICS_INVALID: f"Waiting: {{pod}} reported a number that cannot be; {_KNOWN}.",
    DecisionReason.METRICS_MISSING: f"Waiting: there are no metrics for {{pod}}; {_KNOWN}.",
    DecisionReason.METRICS_STALE: (
        f"Waiting: the newest sample of {{pod}} is {{age_seconds}} s old and may be {{bound_seconds}} s; {_KNOWN}."
    ),
    DecisionReason.WINDOW_NOT_COVERED: (
        f"Waiting: the samples of {{pod}} do not cover the last {{window_seconds}} s yet; {_KNOWN}."
    ),
    DecisionReason.REPLICAS_STARTING: "Waiting{wanted}: {ready} of {replicas} are ready.",
    DecisionReason.COOLING_DOWN: (
        "Waiting{wanted}: the last change was {seconds} s ago, and {bound_seconds} s must pass between two."
    ),
    DecisionReason.HOURLY_BUDGET_SPENT: "Waiting{wanted}: the last hour saw {changes} changes of {bound} allowed.",
    DecisionReason.AT_MAX_REPLICAS: "Waiting{wanted}: there are as many replicas as allowed, {max}.",
    DecisionReason.AT_MIN_REPLICAS: "Waiting{wanted}: there are as few replicas as allowed, {min}.",
    DecisionReason.NO_PLACE_FOUND: "Waiting{wanted}: no place was found for it{nearest}.",
    DecisionReason.MOVE_UNDER_WAY: "Waiting: a move is under way, and the old replicas serve until the new ones do.",
}


def sentence(decision: LoopDecision) -> str:
    """Return a sentence with the decision and its reason. It does not say whether the decision is carried out.

    Raises:
        KeyError: the decision lacks a number that its sentence needs.
    """
    texts = {name: _text(name, value) for name, value in decision.numbers}
    return _SENTENCES[decision.reason].format_map({"wanted": "", "unknown": ""} | texts)


def _text(name: str, value: int | str) -> str:
    """Format one number for the sentences."""
    match name, value:
        case "replicas", int(count):
            return "1 replica" if count == 1 else f"{count} replicas"
        case "unknown", int(count):
            return f", {count} of them unknown" if count else ""
        case (("needed_bytes" | "budget_bytes"), int(count)):
            return format_gib(count)
        case "pod", str(pod):
            return f"pod {pod}" if pod else "a pod"
        case "nearest", str(why):
            return f"; nearest: {why}" if why else ""
        case "wanted", str(reason):
            return f" ({reason})"
        case _:
            return str(value)
