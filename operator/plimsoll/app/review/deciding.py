"""Makes passes of the operator over a picture, without any write, until every model is known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.highs import fleetwide
from plimsoll.adapters.metrics import Metrics
from plimsoll.app.faults import Faults
from plimsoll.app.live.signal_watch import LiveSignals
from plimsoll.app.plan.passes import Passes, PassResult
from plimsoll.app.plan.rendered import Desired
from plimsoll.app.review.values import Means
from plimsoll.app.settings import Settings
from plimsoll.app.shell import new_reader
from plimsoll.app.watch.node_groups import NodeGroups, declared_in
from plimsoll.app.watch.prices import PriceList
from plimsoll.app.watch.store import Picture
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import RESOLVING
from plimsoll.rebalance.signals.reading import Reading

MODELS_SECONDS = 60.0
"""How long to wait for the configurations of models. A model without an answer counts as one that waits."""


class NoReadings(LiveSignals):
    """No live signals: the live loop's last decision stays, as after a restart of the operator."""

    def reading(self, key: ObjectKey) -> Reading | None:  # noqa: ARG002 - the method that it replaces
        """Return None: nothing has been read yet."""
        return None


@dataclass(slots=True)
class Decider:
    """The operator's own passes, made for their result alone."""

    passes: Passes
    changed: asyncio.Event

    async def decided(self, picture: Picture, now: float) -> PassResult:
        """Return the decisions on a picture, and what they leave free."""
        end = time.monotonic() + MODELS_SECONDS
        while True:
            self.changed.clear()
            done = await asyncio.to_thread(self.passes.make, picture, {}, now)
            if not any(map(_is_resolving, done.desired)) or time.monotonic() > end:
                return done
            self.passes.reader.start_wanted()
            try:
                await asyncio.wait_for(self.changed.wait(), max(0.0, end - time.monotonic()))
            except TimeoutError:
                return done


def _is_resolving(desired: Desired) -> bool:
    problem = desired.outcome.problem
    return problem is not None and problem.reason in RESOLVING


@asynccontextmanager
async def new_decider(
    cluster: Cluster, settings: Settings, means: Means
) -> AsyncIterator[tuple[Decider, tuple[str, ...]]]:
    """Return a decider with the operator's settings and prices, and notes about prices that cannot be read.

    Its look-ups of models, claims and images end with the context.
    """
    changed = asyncio.Event()
    prices, notes = await _prices(cluster, settings, means)

    metrics = Metrics()
    groups, about_groups = await _node_groups(cluster, settings)
    reader = new_reader(cluster, settings, means.cache, changed.set, token=means.token)
    passes = Passes(
        reader=reader,
        live=NoReadings(None, lambda: None),
        prices=prices,
        metrics=metrics,
        faults=Faults(metrics.fault),
        node_groups=groups,
        solver=fleetwide(settings.overload),
    )
    try:
        yield Decider(passes, changed), (*notes, *about_groups)
    finally:
        await reader.close()


async def _node_groups(cluster: Cluster, settings: Settings) -> tuple[NodeGroups, tuple[str, ...]]:
    groups = NodeGroups(declared_in(settings.node_groups, load_gpu_types()))
    if not settings.read_node_pools:
        return groups, ()
    try:
        await groups.refresh(cluster, lambda: None)
    except PlimsollError as error:
        return groups, (node_pools_note(error),)
    return groups, ()


async def _prices(cluster: Cluster, settings: Settings, means: Means) -> tuple[PriceList, tuple[str, ...]]:
    key = ObjectKey(settings.namespace, settings.prices_configmap)
    prices = PriceList(cluster, key, lambda: None, load_gpu_types())
    if means.prices is not None:
        prices.current = means.prices
        return prices, ()
    try:
        await prices.refresh()
    except PlimsollError as error:
        return prices, (prices_note(error),)
    return prices, prices.complaints


def prices_note(error: PlimsollError) -> str:
    """Return the note on prices that cannot be read."""
    return f"The operator's prices cannot be read ({error}): the catalogue's prices are used."


def node_pools_note(error: PlimsollError) -> str:
    """Return the note on node pools that cannot be read."""
    return f"Node pools cannot be read ({error}): none is suggested."
