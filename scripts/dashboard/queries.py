"""Queries in PromQL, put together from the names that the operator and its engines use.

One rule holds for every query. Percentages are never added up: where several pods or deployments are shown together,
their tokens and requests are added, or the fullest ones are shown. The figures of engines have the names that the
chart's rules record them under, which are the same for every engine and release.

Several pods of the operator may be scraped. Their series about the fleet and about deployments are read with ``max``.
"""

from __future__ import annotations

OBJECTS = 'namespace=~"$namespace",name=~"$deployment"'
"""Selects the series about the chosen deployments: those of the operator, and the recorded ones of the engines."""

MOST_LINES = 20
"""Lines of a panel that has one for each deployment or pod: those with the largest values."""

OBJECT = "{{namespace}}/{{name}}"
"""The name of a line that shows a deployment."""


def of_objects(metric: str, *labels: str) -> str:
    """Return the query for a metric about deployments, once for each of them."""
    return f"max by ({', '.join(('namespace', 'name', *labels))}) ({metric}{{{OBJECTS}}})"


def largest(expression: str) -> str:
    """Return the query for the lines with the largest values."""
    return f"topk({MOST_LINES}, {expression})"


def or_none(expression: str, label: str) -> str:
    """Return the query with one line at zero where nothing is found and an operator is scraped.

    An operator that is not scraped leaves the panel empty: that is unknown, and not zero.
    """
    return f'{expression} or label_replace(max(plimsoll_leader) * 0, "{label}", "none", "", "")'


def by_deployment(recorded: str) -> str:
    """Return the query for the sum over the pods of each deployment. No share may go in here."""
    return f"sum by (namespace, name) ({recorded}{{{OBJECTS}}})"


def summed(metric: str) -> str:
    """Return the sum over the chosen deployments. It is for tokens and requests only."""
    return f"sum({of_objects(metric)})"
