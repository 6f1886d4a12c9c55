"""Time whole passes over 1,000 objects on 1,250 nodes, reading and rendering included.

``python -m benchmarks.planning.passes`` prints CPU seconds; with ``profile`` it prints where an idle pass spends them.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

from benchmarks.planning.pictures import carry_out, new_store
from benchmarks.planning.worlds import CATALOG, NODES
from plimsoll.adapters.hub.hub import HubModels
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.faults import Faults
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.lookups.model_cache import ModelCache
from plimsoll.app.plan.passes import Passes, PassResult
from plimsoll.app.reading.deployments import DeploymentReader
from plimsoll.app.settings import Settings
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.store import Store

OBJECTS = 1000
IDLE_PASSES = 3


async def main(words: list[str]) -> int:
    """Run the passes of an operator that finds 1,000 new objects, until they all serve and nothing is to be done."""
    with TemporaryDirectory() as cache:
        passes = new_passes(Path(cache))
        store = new_store(NODES, OBJECTS)
        report("models are looked up", passes, store)
        await look_up(passes)
        done = report("all are placed", passes, store)
        for version, name in ((2, "all serve"), (3, "the status says so")):
            carry_out(store, done.desired, version)
            done = report(name, passes, store)
        for _ in range(IDLE_PASSES):
            report("nothing to do", passes, store)
        if "profile" in words:
            profile(passes, store)
        await passes.reader.models.close()
    return 0


def new_passes(cache: Path) -> Passes:
    """A planner without a cluster, a network and Prometheus."""
    metrics = Metrics()
    models = ModelCache(ModelSources(hub=HubModels(cache)), _no_token, lambda: None)
    return Passes(
        reader=DeploymentReader(Settings(), models, CATALOG),
        live=LiveSignals(None, lambda: None),
        prices=cast("PriceList", SimpleNamespace(current={})),
        metrics=metrics,
        faults=Faults(metrics.fault),
    )


async def look_up(passes: Passes) -> None:
    """Let all wanted models be found."""
    passes.reader.models.start_wanted()
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.gather(*tasks)


def report(name: str, passes: Passes, store: Store) -> PassResult:
    """Make a pass and print its CPU seconds."""
    picture, start = store.picture(), time.process_time()
    done = passes.make(picture, {}, time.time())
    print(f"{time.process_time() - start:9.3f}  {name}", flush=True)  # noqa: T201 - what the command is for
    return done


def profile(passes: Passes, store: Store) -> None:
    """Print where an idle pass spends its time."""
    profiler = cProfile.Profile()
    picture = store.picture()
    profiler.runcall(passes.make, picture, {}, time.time())
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(15)


async def _no_token(*_: str) -> str:
    return "none"


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
