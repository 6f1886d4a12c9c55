"""The state of the engines now: their KV cache, their batch, their queues and their speed."""

from __future__ import annotations

from scripts.dashboard.panel import COUNT, PER_SECOND, SECONDS, SHARE, TOKENS, Panel, Query, Row
from scripts.dashboard.queries import OBJECT, OBJECTS, by_deployment, largest, of_objects, summed

NEEDS = "Recorded by the chart's rules (metrics.prometheusRule)."
"""The note of a panel whose series come from the recording rules."""

KEPT = "Prefixes that are kept and that no request uses are not in it."
"""The note of a panel with the KV cache in use."""

LIVE = Row(
    "Live: KV cache in use and sequence slots (batch)",
    (
        Panel(
            "KV cache: tokens in use and in the caches",
            f"All chosen deployments together, of the pods that report. {KEPT}",
            TOKENS,
            (
                Query(summed("plimsoll_live_kv_cache_used_tokens"), "in use"),
                Query(summed("plimsoll_live_kv_cache_tokens"), "in the caches"),
            ),
        ),
        Panel(
            "Sequence slots: running and waiting requests, and the most that may run",
            "If requests wait while the KV cache has room, the engines' limit is reached (--max-num-seqs, with SGLang "
            "--max-running-requests).",
            COUNT,
            (
                Query(summed("plimsoll_live_running_requests"), "running"),
                Query(summed("plimsoll_live_waiting_requests"), "waiting"),
                Query(summed("plimsoll_live_batch_slots"), "may run at most"),
            ),
        ),
        Panel(
            "KV cache in use of each deployment",
            f"Its tokens in use over its tokens. {KEPT}",
            SHARE,
            (
                Query(
                    largest(
                        f"{of_objects('plimsoll_live_kv_cache_used_tokens')} / "
                        f"{of_objects('plimsoll_live_kv_cache_tokens')}"
                    ),
                    OBJECT,
                ),
            ),
        ),
        Panel(
            "Sequence slots of each deployment",
            "Running requests over the most that may run.",
            SHARE,
            (
                Query(
                    largest(
                        f"{of_objects('plimsoll_live_running_requests')} / {of_objects('plimsoll_live_batch_slots')}"
                    ),
                    OBJECT,
                ),
            ),
        ),
        Panel(
            "KV cache in use of each pod, by its engine",
            f"The fullest pods. Data-parallel ranks are not added up: the fullest rank of a pod is shown. {KEPT} "
            f"{NEEDS}",
            SHARE,
            (Query(largest(of_objects("plimsoll:engine_kv_cache_usage_ratio:max", "pod")), "{{namespace}}/{{pod}}"),),
        ),
        Panel(
            "Running requests, by the engines",
            f"The sum over the pods of each deployment. {NEEDS}",
            COUNT,
            (Query(largest(by_deployment("plimsoll:engine_running_requests:sum")), OBJECT),),
        ),
        Panel(
            "Waiting requests, by the engines",
            f"The sum over the pods of each deployment. The queue of a gateway is not in it. {NEEDS}",
            COUNT,
            (Query(largest(by_deployment("plimsoll:engine_waiting_requests:sum")), OBJECT),),
        ),
        Panel(
            "Preemptions",
            f"Requests a second that lost their blocks in the KV cache, and are computed again. {NEEDS}",
            PER_SECOND,
            (Query(largest(by_deployment("plimsoll:engine_preemptions:rate5m")), OBJECT),),
        ),
        Panel(
            "Requests that arrive",
            "As the operator counts them, and as it expects them when a new replica serves.",
            PER_SECOND,
            (
                Query(largest(of_objects("plimsoll_live_arrivals_per_second")), OBJECT),
                Query(largest(of_objects("plimsoll_live_expected_arrivals_per_second")), f"{OBJECT} expected"),
            ),
        ),
        Panel(
            "Pressure",
            "Replicas that the load needs over those that are wanted: above 1 there are too few.",
            COUNT,
            (Query(largest(of_objects("plimsoll_live_pressure_ratio")), OBJECT),),
        ),
        Panel(
            "Needed and wanted replicas",
            "Those that the load needs, and those that are wanted.",
            COUNT,
            (
                Query(largest(of_objects("plimsoll_live_needed_replicas")), f"{OBJECT} needed"),
                Query(largest(of_objects("plimsoll_live_target_replicas")), f"{OBJECT} wanted"),
            ),
        ),
        Panel(
            "Decisions of the live loop",
            "How many of the chosen deployments have each decision and diagnosis.",
            COUNT,
            (
                Query(
                    f"count by (decision, diagnosis) ({of_objects('plimsoll_live_decision', 'decision', 'diagnosis')})",
                    "{{decision}} {{diagnosis}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Tokens a second",
            f"Prompt tokens read, those in the prefix cache included, and tokens generated. {NEEDS}",
            TOKENS,
            (
                Query(f"sum(plimsoll:engine_prompt_tokens:rate5m{{{OBJECTS}}})", "prompt"),
                Query(f"sum(plimsoll:engine_generation_tokens:rate5m{{{OBJECTS}}})", "generated"),
            ),
        ),
        Panel(
            "Mean time to the first token",
            f"From the arrival of a request at its engine. {NEEDS}",
            SECONDS,
            (Query(largest(of_objects("plimsoll:engine_first_token_seconds:mean5m")), OBJECT),),
        ),
        Panel(
            "Mean time between two tokens",
            f"Of requests that generate. {NEEDS}",
            SECONDS,
            (Query(largest(of_objects("plimsoll:engine_token_gap_seconds:mean5m")), OBJECT),),
        ),
    ),
)
