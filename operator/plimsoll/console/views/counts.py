"""The figures in the navigation."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll.console.views.inbox import inbox_of
from plimsoll.console.views.world import World


def counts_of(world: World, now: float) -> Mapping[str, int]:
    """Return the count of an entry of the navigation, by its path."""
    return {"/": len(inbox_of(world, now).items), "/deployments": len(world.rows)}
