"""Tables for people: the plan, the terms of an estimate, the rejected candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from plimsoll.domain.fleet import IgnoredNode
from plimsoll.domain.units import GIB

_TERMS = (
    ("weights", "weightsBytes"),
    ("LoRA slots", "adaptersBytes"),
    ("KV cache", "kvCacheBytes"),
    ("activations", "activationsBytes"),
    ("CUDA graphs", "cudaGraphsBytes"),
    ("overhead", "overheadBytes"),
    ("margin", "marginBytes"),
)

_FIT = {"Sure": "fits for sure", "Probable": "fits only probably", "No": "does not fit"}


def print_plan(console: Console, documents: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per deployment."""
    table = Table("DEPLOYMENT", "PLACED", "GPU", "TP", "REPLICAS", "GiB/GPU", "KV TOKENS", "$/h", box=None)
    for document in documents:
        placement, estimate = document.get("placement") or {}, document.get("estimate") or {}
        table.add_row(
            f"{document['namespace']}/{document['name']}",
            "yes" if document["placed"] else f"no: {document['reason']}",
            placement.get("gpuType", "-"),
            _split(placement),
            str(sum(pool["replicas"] for pool in document.get("pools") or ())),
            estimate.get("gibPerGpu", "-"),
            str(estimate.get("kvCapacityTokens", "-")),
            placement.get("hourlyPrice", "-"),
        )
    console.print(table)


def print_details(console: Console, document: Mapping[str, Any]) -> None:
    """Print the estimate, rejections and remedies of one deployment."""
    if document.get("message"):
        console.print(document["message"], highlight=False)
    if document.get("estimate"):
        print_estimate(console, document["estimate"])
    for warning in (document.get("placement") or {}).get("warnings") or ():
        console.print(f"Warning: {warning}", highlight=False, style="yellow")
    if document.get("rejections"):
        print_rejections(console, document["rejections"])
    if document.get("remedies"):
        console.print("What would help:", style="bold")
        for remedy in document["remedies"]:
            console.print(f"  - {remedy['message']}", highlight=False)


def print_estimate(console: Console, estimate: Mapping[str, Any]) -> None:
    """Print the terms of one GPU."""
    stages = f", {estimate['pipelineParallel']} stages" if estimate.get("pipelineParallel", 1) > 1 else ""
    cut = f"tensor parallel {estimate['tensorParallel']}{stages}"
    console.print(f"One GPU of {estimate['gpuType']} at {cut}:", style="bold")
    table = Table("TERM", "GiB", box=None)
    table.columns[1].justify = "right"
    for name, field in _TERMS:
        if field in estimate:
            table.add_row(name, f"{estimate[field] / GIB:.2f}")
    table.add_row("needed", f"{estimate['computedBytes'] / GIB:.2f}", style="bold")
    if "overrideBytes" in estimate:
        table.add_row("needed, by override", f"{estimate['overrideBytes'] / GIB:.2f}", style="yellow")
    table.add_row("the engine may use", f"{estimate['budgetBytes'] / GIB:.2f}")
    console.print(table)
    if "fit" in estimate:
        console.print(f"It {_FIT[estimate['fit']]}: {_band(estimate)}.", highlight=False)
    console.print(
        f"KV cache: {estimate['kvNeededTokens']} tokens needed, {estimate['kvCapacityTokens']} would fit, "
        f"{estimate['kvBytesPerToken']} bytes a token and GPU.",
        highlight=False,
    )


def _band(estimate: Mapping[str, Any]) -> str:
    """The expected need and its possible error."""
    expected = estimate.get("expectedBytes", estimate["computedBytes"] - estimate["marginBytes"])
    low, high = expected - estimate.get("slackBytes", 0), estimate["computedBytes"]
    return f"expected {expected / GIB:.2f} GiB, between {low / GIB:.2f} and {high / GIB:.2f}"


def _split(entry: Mapping[str, Any]) -> str:
    """The tensor-parallel degree, and the number of stages if there are several."""
    stages = entry.get("pipelineParallel", 1)
    degree = str(entry.get("tensorParallel", "-"))
    return degree if stages == 1 else f"{degree} x PP{stages}"


def print_rejections(console: Console, rejections: Sequence[Mapping[str, Any]]) -> None:
    """Print every other candidate and the reason against it."""
    console.print("Not taken:", style="bold")
    table = Table("GPU", "TP", "REASON", "WHY", box=None)
    for rejection in rejections:
        table.add_row(rejection["gpuType"], _split(rejection), rejection["reason"], rejection["message"])
    console.print(table)


def print_ignored(console: Console, ignored: Sequence[IgnoredNode]) -> None:
    """Print the nodes whose GPUs are not used, with their reasons; nothing if there are none."""
    if not ignored:
        return
    console.rule("nodes left out", align="left")
    for node in ignored:
        console.print(f"{node.name}: {node.reason} ({node.detail})", highlight=False)
