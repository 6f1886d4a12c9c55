"""The picture of ``plimsoll top`` as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.cli.split_words import split_document
from plimsoll.console.views.deployments import DeploymentLine, lines_of
from plimsoll.console.views.fleet import TypeStrip, strips_of
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.states import pressures_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339


def picture_document(world: ClusterView, uses: Mapping[ObjectKey, LiveUse], now: float) -> dict[str, Any]:
    """Return the GPU types and the deployments, worst first. What is not known is null; shares are between 0 and 1.

    Args:
        world: everything that the person may see.
        uses: the live use by deployment; one that is missing is unknown.
        now: POSIX seconds.
    """
    return {
        "gpuTypes": [_type(strip) for strip in strips_of(world)],
        "deployments": [
            _deployment(line, uses.get(line.row.key, LiveUse()), now)
            for line in lines_of(world.rows.values(), pressures_of(uses, now), now)
        ],
        "notes": [gap.sentence for gap in world.gaps],
    }


def _type(strip: TypeStrip) -> dict[str, Any]:
    return {
        "gpuType": strip.gpu_type,
        "nodes": strip.nodes,
        "gpus": strip.gpus,
        "free": strip.free,
        "ours": strip.ours,
        "others": strip.others,
    }


def _deployment(line: DeploymentLine, use: LiveUse, now: float) -> dict[str, Any]:
    row, figures, known = line.row, line.row.figures, line.state.judged.known
    return {
        "namespace": row.key.namespace,
        "name": row.key.name,
        "state": line.state.word,
        "acknowledged": None if known is None else {"by": known.by, "until": to_rfc3339(known.until)},
        "gpuType": row.gpu_type,
        **({} if row.split is None else split_document(row.split)),
        "neededBytes": None if figures is None else figures.upper,
        "budgetBytes": None if figures is None else figures.budget,
        "kvCacheInUse": _fresh(use.kv, now),
        "sequenceSlotsInUse": _fresh(use.sequence_slots, now),
        "waiting": _fresh(use.waiting, now),
        "replicas": row.summary or None,
        "hourlyPrice": row.hourly_price,
    }


def _fresh(sample: SampledFigure | None, now: float) -> float | None:
    """Return a figure; None if there is none, or if it is too old to count."""
    return None if sample is None or sample.is_stale(now) else sample.value
