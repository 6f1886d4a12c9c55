#!/usr/bin/env python3
"""Write what is expected of the examples and of the stories of the tests, from what the code says now.

The console's copy of the documentation's words and the tables of ``docs/states.md`` are written as well, and so are
the estimates of ``benchmarks.accuracy.kept``, the decisions of ``tests.rebalance.kept_decisions``, and the plans and
the proposals of ``tests.placement``: a change of a law shows the answers that it moves.

    python -m scripts.update_goldens           # write every file
    python -m scripts.update_goldens --check   # write nothing; exit 1 where a file is not what the code says

Read the difference before you commit it: each of these files is a promise to a user.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from benchmarks.accuracy.kept import estimated_kinds, estimated_starts
from plimsoll.cli.context import prices_from
from plimsoll.cli.forms import versioned
from plimsoll.cli.planning import Planned, plan_document, plan_located
from plimsoll.cli.plans.fleet_review import fleet_file
from plimsoll.cli.plans.tables import size_words
from plimsoll.cli.prices.price_files import priced_types
from plimsoll.cli.reading.documents import read_manifests
from plimsoll.cli.reading.snapshot_files import groups_from
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.placement.explain import place_words
from plimsoll.status.record.places import split_of
from tests.placement.kept_plans import kept_plans
from tests.placement.kept_proposals import kept_proposals
from tests.rebalance.kept_decisions import kept_decisions
from tests.states.states import PAGE, page_text

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
STORIES = ROOT / "tests" / "stories"
STATES = PAGE
WORDS_OF_THE_CONSOLE = ROOT / "operator" / "plimsoll" / "console" / "reasons.md"


def goldens() -> Iterator[tuple[Path, str]]:
    """Every expected file with its text."""
    for folder in sorted(path.parent for path in EXAMPLES.glob("*/deployment.yaml")):
        planned, _ = _planned(folder / "deployment.yaml", EXAMPLES / "fleet.yaml", EXAMPLES / "prices.yaml")
        yield (
            folder / "expected" / "plan.yaml",
            _written(versioned(plan_document([entry.document() for entry in planned]))),
        )
        yield folder / "expected" / "objects.yaml", _objects(planned)
    for folder in sorted(path.parent for path in STORIES.glob("*/request.yaml")):
        yield folder / "expected.yaml", story(folder)
    yield STATES, page_text()
    yield WORDS_OF_THE_CONSOLE, (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")


def story(folder: Path) -> str:
    """What becomes of a story's deployments, short enough to be read at a glance."""
    prices = folder / "prices.yaml"
    planned, fleet = _planned(folder / "request.yaml", folder / "fleet.yaml", prices if prices.exists() else None)
    told: dict[str, Any] = {"deployments": [_outcome(entry) for entry in planned]}
    if fleet.ignored:
        told["ignoredNodes"] = {node.name: f"{node.reason}: {node.detail}" for node in fleet.ignored}
    return _written(told)


def _planned(manifest: Path, nodes: Path, prices: Path | None) -> tuple[list[Planned], Fleet]:
    own = prices_from(str(prices) if prices else None)
    fleet = fleet_file(str(nodes), own).fleet
    groups = manifest.parent / "node-groups.yaml"
    types = priced_types(own)
    growing = groups_from(str(groups) if groups.exists() else None, types)
    planned, problems = plan_located(read_manifests([str(manifest)]).found, fleet, lambda entry: entry, types, growing)
    if problems:
        raise ValueError(problems)
    return [entry for entry, _ in planned], fleet


def _outcome(entry: Planned) -> dict[str, Any]:
    expected = entry.outcome()
    status = expected.status
    outcome: dict[str, Any] = {"name": expected.name, "reason": expected.reason or "Placed"}
    if status.pools:
        outcome["replicas"] = {pool.name: pool.replicas for pool in status.pools}
    if status.placement is not None and status.estimate is not None:
        figures = status.estimate
        outcome |= {"gibPerGpu": figures.gib_per_gpu, "hourlyPrice": status.placement.hourly_price or "unknown"}
        outcome["kvTokens"] = f"{figures.kv_capacity_tokens} for {figures.kv_needed_tokens} needed"
        if status.placement.warnings:
            outcome["warnings"] = status.placement.warnings
    if status.size is not None:
        outcome["size"] = size_words(status.size)
    outcome["notTaken"] = {
        place_words(each.gpu_type, split_of(each)): f"{each.reason}: {each.message}" for each in status.rejections or ()
    }
    if status.remedies:
        outcome["wouldHelp"] = [each.message for each in status.remedies]
    if status.suggestions:
        outcome["wouldBeCheaper"] = [each.message for each in status.suggestions]
    return outcome


def _objects(planned: list[Planned]) -> str:
    bodies = [body for entry in planned for body in entry.objects()]
    return yaml.safe_dump_all(bodies, sort_keys=False) if bodies else "# Nothing is applied: it fits nowhere.\n"


def _written(document: Any) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120)


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` only compare them. Returns the exit status."""
    kept = chain(estimated_starts(), estimated_kinds(), kept_decisions(), kept_plans(), kept_proposals())
    wanted = chain(goldens(), kept)
    stale = [(path, text) for path, text in wanted if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path, _ in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what the code says: run make goldens\n")
        return 1 if stale else 0
    for path, text in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
