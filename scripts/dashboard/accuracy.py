"""How far the estimates are from what the engines report."""

from __future__ import annotations

from scripts.dashboard.panel import COUNT, SHARE, TOKENS, Panel, Query, Row
from scripts.dashboard.queries import OBJECT, largest, of_objects

ACCURACY = Row(
    "Accuracy",
    (
        Panel(
            "Predicted and reported KV tokens",
            "Of one replica, by the estimate and by its engine.",
            TOKENS,
            (
                Query(
                    largest(of_objects("plimsoll_predicted_kv_cache_tokens", "pool")),
                    f"{OBJECT} {{{{pool}}}} predicted",
                ),
                Query(
                    largest(of_objects("plimsoll_reported_kv_cache_tokens", "pool")), f"{OBJECT} {{{{pool}}}} reported"
                ),
            ),
        ),
        Panel(
            "Error of the estimate",
            "Predicted over reported KV tokens, less one: above 0 too much was promised.",
            SHARE,
            (Query(of_objects("plimsoll_estimate_error_ratio", "pool"), f"{OBJECT} {{{{pool}}}}"),),
        ),
        Panel(
            "Measured time per token over the model's",
            "As learned from the engines: 1 is as the performance model says.",
            COUNT,
            (Query(largest(of_objects("plimsoll_live_token_time_ratio")), OBJECT),),
        ),
    ),
)
