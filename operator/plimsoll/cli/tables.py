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
    ("KV cache", "kvCacheBytes"),
    ("activations", "activationsBytes"),
    ("CUDA graphs", "cudaGraphsBytes"),
    ("overhead", "overheadBytes"),
    ("margin", "marginBytes"),
)


def print_plan(console: Console, documents: Sequence[Mapping[str, Any]]) -> None:
    """One line per deployment."""
    table = Table("DEPLOYMENT", "PLACED", "GPU", "TP", "REPLICAS", "GiB/GPU", "KV TOKENS", "$/h", box=None)
    for document in documents:
        placement, estimate = document.get("placement") or {}, document.get("estimate") or {}
        table.add_row(
            f"{document['namespace']}/{document['name']}",
            "yes" if document["placed"] else f"no: {document['reason']}",
            placement.get("gpuType", "-"),
            str(placement.get("tensorParallel", "-")),
            str(sum(pool["replicas"] for pool in document.get("pools") or ())),
            estimate.get("gibPerGpu", "-"),
            str(estimate.get("kvCapacityTokens", "-")),
            placement.get("hourlyPrice", "-"),
        )
    console.print(table)


def print_details(console: Console, document: Mapping[str, Any]) -> None:
    """Estimate, rejections and remedies of one deployment."""
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
    """The terms of one GPU."""
    console.print(f"One GPU of {estimate['gpuType']} at tensor parallel {estimate['tensorParallel']}:", style="bold")
    table = Table("TERM", "GiB", box=None)
    table.columns[1].justify = "right"
    for name, field in _TERMS:
        table.add_row(name, f"{estimate[field] / GIB:.2f}")
    table.add_row("needed", f"{estimate['computedBytes'] / GIB:.2f}", style="bold")
    if "overrideBytes" in estimate:
        table.add_row("needed, by override", f"{estimate['overrideBytes'] / GIB:.2f}", style="yellow")
    table.add_row("the engine may use", f"{estimate['budgetBytes'] / GIB:.2f}")
    console.print(table)
    console.print(
        f"KV cache: {estimate['kvNeededTokens']} tokens needed, {estimate['kvCapacityTokens']} would fit, "
        f"{estimate['kvBytesPerToken']} bytes a token and GPU.",
        highlight=False,
    )


def print_rejections(console: Console, rejections: Sequence[Mapping[str, Any]]) -> None:
    """Every other candidate and why not."""
    console.print("Not taken:", style="bold")
    table = Table("GPU", "TP", "REASON", "WHY", box=None)
    for rejection in rejections:
        table.add_row(rejection["gpuType"], str(rejection["tensorParallel"]), rejection["reason"], rejection["message"])
    console.print(table)


def print_ignored(console: Console, ignored: Sequence[IgnoredNode]) -> None:
    """The nodes whose GPUs take no part, with their reasons; nothing where there are none."""
    if not ignored:
        return
    console.rule("nodes left out", align="left")
    for node in ignored:
        console.print(f"{node.name}: {node.reason} ({node.detail})", highlight=False)
