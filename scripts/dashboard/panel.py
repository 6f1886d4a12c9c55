"""The parts of a dashboard: rows, panels and queries."""

from __future__ import annotations

from dataclasses import dataclass

SHARE, COUNT, TOKENS, SECONDS, BYTES = "percentunit", "short", "locale", "s", "bytes"
DOLLARS, PER_SECOND, PER_MINUTE = "currencyUSD", "reqps", "cpm"
"""Units, by their names in Grafana."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query in PromQL, and the template of its lines' names."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: a few words.
        description: how to read it.
        unit: the name of the unit in Grafana.
        queries: the lines.
        stacked: the lines are parts of a whole.
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Panels about one question."""

    title: str
    panels: tuple[Panel, ...]
