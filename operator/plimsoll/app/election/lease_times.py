"""How long the lease of the one writer lasts, and how often it is renewed and looked at."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.errors import InvalidInput

LEASE, RENEW_DEADLINE, RETRY = (
    "PLIMSOLL_LEASE_SECONDS",
    "PLIMSOLL_LEASE_RENEW_DEADLINE_SECONDS",
    "PLIMSOLL_LEASE_RETRY_SECONDS",
)
"""The environment variables of these times."""

LONGEST_LEASE_SECONDS = 60
"""The longest lease that may be set. A candidate takes a longer one for nonsense and waits for its own time instead."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of an election, in seconds. The defaults of lease and deadline are those of Kubernetes' own components.

    Raises:
        InvalidInput: a candidate could take over while the holder still writes, or a lease is too long.
    """

    lease: int = 15
    """How long a candidate waits for a renewal before it takes over."""

    renew_deadline: float = 10.0
    """How long the holder may write after a granted renewal. The rest of the lease is for writes in flight."""

    retry: float = 1.0
    """The pause between two checks of a candidate: it notices a release within this time."""

    def __post_init__(self) -> None:
        if not 0 < self.lease <= LONGEST_LEASE_SECONDS:
            raise InvalidInput(LEASE, str(self.lease), f"Write whole seconds, 1 to {LONGEST_LEASE_SECONDS}.")
        if not 0 < self.renew_deadline < self.lease:
            raise InvalidInput(
                RENEW_DEADLINE,
                str(self.renew_deadline),
                f"Write fewer seconds than {LEASE}, which is {self.lease}: the holder must have stopped writing before "
                "another process takes over.",
            )

    @property
    def renewal(self) -> float:
        """The pause between two renewals."""
        return self.renew_deadline / 4

    @property
    def after_a_failure(self) -> float:
        """The pause after a renewal that failed: at least two more are tried before the deadline."""
        return self.renew_deadline / 20

    @property
    def request(self) -> float:
        """The time limit of one request."""
        return self.renew_deadline * 0.3


USUAL = LeaseTimes()
"""The times if nothing is set."""
