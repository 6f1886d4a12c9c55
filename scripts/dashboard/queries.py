"""Queries in PromQL, put together from the names that the operator and its engines use.

Two rules hold for every query. Percentages are never added up: where several pods or deployments are shown together,
their tokens and requests are added, or the fullest ones are shown. And a metric of the engine that has a former name is
asked for by both, so that no panel is empty on an older release.

Several pods of the operator may be scraped. Their series about the fleet and about deployments are read with ``max``.
"""

from __future__ import annotations

from plimsoll.engines.metrics import count_of, total_of
from plimsoll.engines.registry import engine_of

METRICS = engine_of().metrics

OBJECTS = 'namespace=~"$namespace",name=~"$deployment"'
"""Selects the series of the operator about the chosen deployments."""

ENGINES = f'namespace=~"$namespace",{METRICS.model_label}=~"$deployment"'
"""Selects the series of their engines: an engine calls its model by the name of the deployment."""

MOST_LINES = 20
"""Lines of a panel that has one for each deployment or pod: those with the largest values."""


OBJECT, MODEL = "{{namespace}}/{{name}}", "{{namespace}}/{{" + METRICS.model_label + "}}"
"""The names of lines that show a deployment: from series of the operator, and from those of its engines."""


def of_objects(metric: str, *labels: str) -> str:
    """Return the query for a metric of the operator about deployments, once for each of them."""
    return f"max by ({', '.join(('namespace', 'name', *labels))}) ({metric}{{{OBJECTS}}})"


def largest(expression: str) -> str:
    """Return the query for the lines with the largest values."""
    return f"topk({MOST_LINES}, {expression})"


def or_none(expression: str, label: str) -> str:
    """Return the query with one line at zero where nothing is found and an operator is scraped.

    An operator that is not scraped leaves the panel empty: that is unknown, and not zero.
    """
    return f'{expression} or label_replace(max(plimsoll_leader) * 0, "{label}", "none", "", "")'


def spellings(series: str) -> tuple[str, ...]:
    """Return the current name of a series of the engine and its former names."""
    return (series, *(former for former, current in METRICS.former_names.items() if current == series))


def of_engines(series: str) -> str:
    """Return the query for a gauge of the engines under each of its names."""
    return "(" + " or ".join(f"{name}{{{ENGINES}}}" for name in spellings(series)) + ")"


def rate_of(series: str) -> str:
    """Return the query for the growth of a counter of the engines a second, under each of its names."""
    return "(" + " or ".join(f"rate({name}{{{ENGINES}}}[$__rate_interval])" for name in spellings(series)) + ")"


def by_deployment(expression: str) -> str:
    """Return the query for the sum over the pods of each deployment. No share may go in here."""
    return f"sum by (namespace, {METRICS.model_label}) ({expression})"


def mean_of(histogram: str) -> str:
    """Return the query for the mean of a histogram of the engines, for each deployment."""
    return f"{by_deployment(rate_of(total_of(histogram)))} / {by_deployment(rate_of(count_of(histogram)))}"


def summed(metric: str) -> str:
    """Return the sum over the chosen deployments. It is for tokens and requests only."""
    return f"sum({of_objects(metric)})"
