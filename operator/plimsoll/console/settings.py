"""The settings of one console process."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.kubernetes_names import ObjectKey

OPERATOR = ObjectKey("plimsoll-system", "plimsoll")
"""The Lease of an operator that was installed as the README says."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """How one console process works.

    Attributes:
        port: the port; 0 for any free one.
        kubeconfig: as for kubectl.
        context: as for kubectl.
        namespaces: the namespaces to show; empty for all that the person may list.
        prometheus_url: where live use is read; None for no live marks.
        grafana_url: root of a Grafana that has the chart's dashboard; None for no links to it.
        logs_url: the address of a pod's logs, with ``{namespace}``, ``{deployment}`` and ``{pod}``; None for no links.
        operator: the Lease of the operator's election, which says when the operator last made a pass.
        allow_approvals: whether proposals can be answered here. Everything else is read-only in any case.
    """

    port: int = 8765
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    prometheus_url: str | None = None
    grafana_url: str | None = None
    logs_url: str | None = None
    operator: ObjectKey = OPERATOR
    allow_approvals: bool = False
