"""Room for a deployment that nothing free can hold: changes of others, and what it would get after them."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.proposals import Proposal
from plimsoll.placement.pools import Decision


@dataclass(frozen=True, slots=True)
class Room:
    """A proposal that asks others for their GPUs, and the decision ``then`` once they are free.

    ``seconds`` is the time until they are free: moved replicas start first, and the requests of old ones end.
    """

    proposal: Proposal
    then: Decision
    seconds: int
