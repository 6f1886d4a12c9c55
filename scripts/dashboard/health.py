"""Whether the operator does its work, and on data of which age."""

from __future__ import annotations

from scripts.dashboard.panel import COUNT, PER_MINUTE, SECONDS, Panel, Query, Row
from scripts.dashboard.queries import or_none

OPERATOR = Row(
    "Operator",
    (
        Panel(
            "Leaders",
            "Pods that hold the lease: 1. With 0 nothing is decided.",
            COUNT,
            (Query("sum(plimsoll_leader)", "leaders"),),
        ),
        Panel(
            "Passes and failures a minute",
            "A leader makes one a minute at least. A pass that fails is counted in both.",
            PER_MINUTE,
            (
                Query("60 * sum(rate(plimsoll_pass_duration_seconds_count[$__rate_interval]))", "passes"),
                Query("60 * sum(rate(plimsoll_pass_failures_total[$__rate_interval]))", "failed passes"),
                Query("60 * sum(rate(plimsoll_write_failures_total[$__rate_interval]))", "failed writes"),
            ),
        ),
        Panel(
            "Duration of a pass",
            "The mean of whole passes, the time below which 99 % of them end, and the mean of the planning in them.",
            SECONDS,
            (
                Query(
                    "sum(rate(plimsoll_pass_duration_seconds_sum[$__rate_interval])) / "
                    "sum(rate(plimsoll_pass_duration_seconds_count[$__rate_interval]))",
                    "mean",
                ),
                Query(
                    "histogram_quantile(0.99, sum by (le) "
                    "(rate(plimsoll_pass_duration_seconds_bucket[$__rate_interval])))",
                    "99 %",
                ),
                Query(
                    "sum(rate(plimsoll_solve_duration_seconds_sum[$__rate_interval])) / "
                    "sum(rate(plimsoll_solve_duration_seconds_count[$__rate_interval]))",
                    "planning",
                ),
            ),
        ),
        Panel(
            "Exceptions of single objects, by step",
            "How many there were since the operator started. The object has the condition Stalled, and its reason.",
            COUNT,
            (Query(or_none("sum by (step) (plimsoll_object_faults_total)", "step"), "{{step}}"),),
        ),
        Panel(
            "Age of the data",
            "Time since each kind was listed. Between two lists the watches bring changes.",
            SECONDS,
            (Query("max by (kind) (plimsoll_data_age_seconds)", "{{kind}}"),),
        ),
        Panel(
            "Silence of the watches",
            "How long a watch has owed a change that a list knows of. 0 is good.",
            SECONDS,
            (Query("max by (kind) (plimsoll_watch_silent_seconds)", "{{kind}}"),),
        ),
        Panel(
            "Versions",
            "Pods of the operator by version.",
            COUNT,
            (Query("count by (version) (plimsoll_build_info)", "{{version}}"),),
        ),
    ),
)
