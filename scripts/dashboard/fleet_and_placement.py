"""Which GPUs there are, what they cost, and who has a place on them."""

from __future__ import annotations

from scripts.dashboard.panel import BYTES, COUNT, DOLLARS, SHARE, Panel, Query, Row
from scripts.dashboard.queries import MOST_LINES, OBJECT, largest, of_objects, or_none

FLEET = Row(
    "Fleet",
    (
        Panel(
            "GPUs by type and state",
            "Free and held GPUs of the nodes that take part in placement.",
            COUNT,
            (Query("max by (gpu_type, state) (plimsoll_fleet_gpus)", "{{gpu_type}} {{state}}"),),
            stacked=True,
        ),
        Panel(
            "Ignored nodes by reason",
            "GPU nodes that take no part in placement. docs/reasons.md says what each reason means.",
            COUNT,
            (Query(or_none("max by (reason) (plimsoll_fleet_ignored_nodes)", "reason"), "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Bill before and after the last plan",
            "US dollars per hour of all replicas, by the prices that the operator knows.",
            DOLLARS,
            (Query("max by (plan) (plimsoll_fleet_bill_dollars_per_hour)", "{{plan}}"),),
        ),
        Panel(
            "How much a better plan might save",
            "The part of the bill of the replicas placed last by which a better plan might be cheaper, at most.",
            SHARE,
            (Query("max by (solver) (plimsoll_decision_gap_ratio)", "{{solver}}"),),
        ),
        Panel(
            "Doubtful prices",
            "1 for each price of the fleet's GPUs that may be wrong.",
            COUNT,
            (
                Query(
                    or_none("max by (gpu_type, capacity_type, reason) (plimsoll_price_doubts)", "reason"),
                    "{{gpu_type}} {{capacity_type}} {{reason}}",
                ),
            ),
            stacked=True,
        ),
    ),
)

PLACEMENT = Row(
    "Placement",
    (
        Panel(
            "Planned replicas by GPU type",
            "Replicas of the chosen deployments that have a place.",
            COUNT,
            (Query(f"sum by (gpu_type) ({of_objects('plimsoll_planned_replicas', 'gpu_type')})", "{{gpu_type}}"),),
            stacked=True,
        ),
        Panel(
            "Replicas without a place",
            f"The {MOST_LINES} deployments that lack most. `kubectl get infd` and `plimsoll explain` say why.",
            COUNT,
            (Query(largest(of_objects("plimsoll_unplaced_replicas")), OBJECT),),
        ),
        Panel(
            "Replicas of the whole fleet that are unplaced or move",
            "All deployments, also those that are not chosen above.",
            COUNT,
            (Query("max by (state) (plimsoll_fleet_replicas)", "{{state}}"),),
        ),
        Panel(
            "Candidates not taken, by reason",
            "GPU types and splits that the last plan turned down. docs/reasons.md says what each reason means.",
            COUNT,
            (Query(f"sum by (reason) ({of_objects('plimsoll_placement_rejections', 'reason')})", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Deployments that cannot be planned, by reason",
            "Their specification or their model is not usable, or a source does not answer.",
            COUNT,
            (
                Query(
                    or_none(f"count by (reason) ({of_objects('plimsoll_problems', 'reason')})", "reason"), "{{reason}}"
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Changes that wait for approval",
            "Deployments whose live loop has proposed a change that nobody has approved or rejected.",
            COUNT,
            (Query(largest(of_objects("plimsoll_waiting_proposals")), OBJECT),),
        ),
        Panel(
            "Estimated memory of one GPU",
            "The parts of the estimate and the margin. Choose one deployment.",
            BYTES,
            (
                Query(
                    largest(of_objects("plimsoll_estimated_gpu_memory_bytes", "component")),
                    f"{OBJECT} {{{{component}}}}",
                ),
            ),
            stacked=True,
        ),
    ),
)
