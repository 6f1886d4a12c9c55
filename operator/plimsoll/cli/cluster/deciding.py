"""The operator's decision on a cluster or a snapshot, as commands ask for it. Only ``later`` imports this module.

It needs all that a pass of the operator needs, which takes longer to import than to read an object.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from plimsoll.app.exports.document import Export
from plimsoll.app.exports.exporting import export as export_cluster
from plimsoll.app.exports.replaying import replay as replay_wishes
from plimsoll.app.exports.replaying import replay_capacity as replay_wish
from plimsoll.app.review.measuring import measure as measure_wish
from plimsoll.app.review.reviewing import review as review_wishes
from plimsoll.app.review.values import DeploymentWish, Means, Measured, Review
from plimsoll.cli.cluster.live import LiveCluster, answered

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DecidingCluster:
    """A cluster on which the operator's decision is made, without writing it."""

    live: LiveCluster

    def review(self, wishes: Sequence[DeploymentWish], means: Means) -> Review:
        """The operator's decision if these objects were applied."""
        return _noted(self.live.ask(lambda cluster: review_wishes(cluster, wishes, means)))

    def measure(self, wish: DeploymentWish, means: Means) -> Measured:
        """How many more replicas of an object fit after the operator's decisions."""
        return _noted(self.live.ask(lambda cluster: measure_wish(cluster, wish, means)))

    def export(self, means: Means, *, hash_names: bool) -> Export:
        """A snapshot of everything that the operator's decision reads."""
        return _noted(self.live.ask(lambda cluster: export_cluster(cluster, means, hash_names=hash_names)))


def _noted(asking: Coroutine[Any, Any, T]) -> T:
    """Run what keeps its warnings as notes of its answer."""
    logging.getLogger("plimsoll").addHandler(logging.NullHandler())
    return answered(asking)


def replay(stored: Export, wishes: Sequence[DeploymentWish], means: Means) -> Review:
    """The operator's decision on a snapshot if these objects had been applied."""
    return _noted(replay_wishes(stored, wishes, means))


def replay_capacity(stored: Export, wish: DeploymentWish, means: Means) -> Measured:
    """How many more replicas of an object fitted on a snapshot."""
    return _noted(replay_wish(stored, wish, means))
