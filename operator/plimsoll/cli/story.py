"""``plimsoll explain``: the story of one InferenceDeployment, from its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from plimsoll.cli.tables import print_details
from plimsoll.domain.units import GIB
from plimsoll.rebalance.learning import CapacityReading, error_percent_text


def print_story(console: Console, body: Mapping[str, Any]) -> None:
    """Print conditions, estimate, rejections, pools, the engines' reports and the live loop's decision."""
    status = body.get("status") or {}
    if status.get("observedGeneration") != body["metadata"].get("generation"):
        console.print("The operator has not seen the last change yet; this is the state before it.", style="yellow")
    for condition in status.get("conditions") or ():
        console.print(f"{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}")
    print_details(console, status)
    for pool in status.get("pools") or ():
        serving = f"{pool['readyReplicas']}/{pool['replicas']} replicas, {pool['state']}"
        console.print(f"Pool {pool['name']}: {serving}{_learned(pool)}.", highlight=False)
    for seen in status.get("observations") or ():
        console.print(f"Observed: {_observed(seen)}.", highlight=False)
    for small in status.get("tooSmall") or ():
        place = f"{small['gpuType']} x {small['tensorParallel']}"
        console.print(f"Proved too small: {place}, its engine got {small['kvTokens']} KV tokens.", highlight=False)
    live = status.get("rebalancing")
    if live:
        console.print(f"Rebalancing: {live['decision']} ({live['reason']}). {live['message']}", highlight=False)
        if live.get("proposal"):
            console.print(f"Proposal: {live['proposal']}", highlight=False, style="bold")


def _observed(seen: Mapping[str, Any]) -> str:
    """One report of an engine about its memory, with the prediction of the memory law alone."""
    stages = f" x {seen['pipelineParallel']} stages" if "pipelineParallel" in seen else ""
    place = f"{seen['model']} on {seen['gpuType']} x {seen['tensorParallel']}{stages}, vLLM {seen['engineVersion']}"
    predicted = f"{seen['predictedKvBytes'] / GIB:.2f} GiB predicted"
    got = seen.get("availableKvBytes")
    outcome = "ran out of memory" if got is None else f"{got / GIB:.2f} GiB for its KV cache"
    return f"{place}: {outcome}, {predicted} ({seen['witness']})"


def _learned(pool: Mapping[str, Any]) -> str:
    """The engine's own figure and the estimate's error, if there are any."""
    reported, predicted = pool.get("kvTokensReported"), pool.get("kvTokensPredicted")
    if reported is None:
        return ""
    error = None if predicted is None else CapacityReading(predicted, reported).error_permille
    difference = "" if error is None else f" (estimate {error_percent_text(error)})"
    return f", engine reports {reported} KV tokens{difference}"
