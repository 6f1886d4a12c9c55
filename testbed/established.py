"""Whether the API server serves a custom resource yet."""

from __future__ import annotations

from collections.abc import Callable

from testbed.commands import CommandFailed
from testbed.waiting import wait_until

SECONDS = 120.0


def wait_until_established(kubectl: Callable[..., str], crd: str) -> None:
    """Wait until a CustomResourceDefinition is established.

    ``kubectl wait`` gives up on one whose status has no conditions yet, which is so for a moment after its creation.

    Args:
        kubectl: runs kubectl with these words; raises :class:`CommandFailed`.
        crd: name of the definition.

    Raises:
        NotInTime: it is not established within SECONDS.
    """
    path = '{.status.conditions[?(@.type=="Established")].status}'

    def is_established() -> bool:
        try:
            return kubectl("get", "crd", crd, f"-o=jsonpath={path}") == "True"
        except CommandFailed:
            return False

    wait_until(is_established, SECONDS, f"{crd} established")
