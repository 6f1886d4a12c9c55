"""Would the load still fit, with room to spare, if one replica were gone?"""

from __future__ import annotations

from plimsoll.rebalance.history import Ceiling
from plimsoll.rebalance.policy import RebalancePolicy
from plimsoll.rebalance.signals import LoadSummary


def allows_removal(load: LoadSummary, remaining_held_tokens: int, policy: RebalancePolicy) -> bool:
    """Whether the KV cache that remains would have carried the window's highest demand at no more than ``low_percent``.

    No request may have waited and none been preempted throughout the window: either means that somebody lacked room,
    whatever the percentages say. Unknown preemptions count as some.
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
    """Whether the traffic is well below the one at which the replicas were last found too few.

    At the ceiling a replica was at ``high_percent`` of something; the remaining ones may be at ``low_percent`` of the
    same, for prompts and for generated tokens each. Without a ceiling, or with one older than ``ceiling_seconds``,
    nothing is known against the removal; with one but unknown rates, it does not happen.
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
