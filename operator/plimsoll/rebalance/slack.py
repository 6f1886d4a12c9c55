"""Check whether the load would still fit, with room to spare, without one replica."""

from __future__ import annotations

from plimsoll.rebalance.history import Ceiling
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary


def allows_removal(load: LoadSummary, remaining_held_tokens: int, policy: RebalancePolicy) -> bool:
    """Whether the window's highest demand would have used at most ``low_percent`` of the remaining KV cache.

    During the window no request may have waited, and none may have been preempted. Either one shows that a request
    lacked room, even at low percentages. An unknown number of preemptions forbids the removal.
    """
    return (
        load.waiting_peak == 0
        and load.preemptions == 0
        and load.demanded_peak_tokens * 100 <= policy.low_percent * remaining_held_tokens
        and remaining_held_tokens > 0
    )


def throughput_allows_removal(
    load: LoadSummary, ceiling: Ceiling | None, remaining_replicas: int, now: float, policy: RebalancePolicy
) -> bool:
    """Whether the traffic is well below the traffic at which there were last too few replicas.

    The ceiling is the throughput of a replica at ``high_percent`` load. The remaining replicas may reach
    ``low_percent`` of the same load, for prompt tokens and for generated tokens each. Without a ceiling, or with one
    older than ``ceiling_seconds``, throughput does not forbid the removal. With a ceiling but unknown rates, it does.
    """
    if ceiling is None or now - ceiling.at >= policy.ceiling_seconds:
        return True
    pairs = (
        (load.prompt_tokens_per_second, ceiling.prompt_tokens_per_second),
        (load.generation_tokens_per_second, ceiling.generation_tokens_per_second),
    )
    return all(
        rate is not None
        and highest is not None
        and rate * policy.high_percent <= highest * remaining_replicas * policy.low_percent
        for rate, highest in pairs
    )
