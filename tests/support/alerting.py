"""The chart's rules and dashboard, and what they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plimsoll.adapters.metrics import Metrics
from plimsoll.engines.registry import ENGINES

CHART = Path(__file__).resolve().parents[2] / "charts" / "plimsoll"
RULES_FILE = CHART / "alerts" / "plimsoll.yaml"
DASHBOARD = json.loads((CHART / "dashboards" / "plimsoll.json").read_text())
_METRIC = re.compile(r"\b(?:plimsoll_|[a-z]+:)[a-z0-9_:]+")
_RECORDED = re.compile(r"\b(plimsoll:[a-z0-9_:]+)(?:\[(\d+m)\])?")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",), "gauge": ("",)}
_UNITS = {"m": 1, "h": 60}


@dataclass(frozen=True, slots=True)
class Rule:
    """One alerting rule; ``minutes`` is how long its expression must hold."""

    name: str
    expression: str
    minutes: int
    labels: dict[str, str]
    annotations: dict[str, str]


def _rule(body: dict[str, Any]) -> Rule:
    held = body.get("for", "0m")
    minutes = int(held[:-1]) * _UNITS[held[-1]]
    return Rule(body["alert"], body["expr"], minutes, body["labels"], body["annotations"])


_BODIES = [body for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for body in group["rules"]]
RULES = {rule.name: rule for rule in map(_rule, (body for body in _BODIES if "alert" in body))}
RECORDS: dict[str, str] = {body["record"]: body["expr"] for body in _BODIES if "record" in body}
"""The meaning of each recorded name."""


def spelled_out(expression: str) -> str:
    """The expression with what is recorded in the place of the recorded names, as for a time before the rules ran."""

    def recorded(found: re.Match[str]) -> str:
        name, over = found.groups()
        return f"({spelled_out(RECORDS[name])})" + (f"[{over}:1m]" if over else "")

    return _RECORDED.sub(recorded, expression)


def panels() -> Iterator[dict[str, Any]]:
    """The panels of the dashboard that show something."""
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def queries() -> dict[str, str]:
    """Every query of the dashboard, by the title of its panel and its letter."""
    return {f"{panel['title']} {each['refId']}": each["expr"] for panel in panels() for each in panel["targets"]}


def metrics_of(expression: str) -> set[str]:
    """The metrics that a query names."""
    return set(_METRIC.findall(expression))


def exported() -> set[str]:
    """Every series of the operator, also those without a sample."""
    families = list(Metrics().registry.collect())
    return {f"{family.name}{suffix}" for family in families for suffix in _SUFFIXES[family.type]}


def of_engines() -> set[str]:
    """Every series of an engine that the operator knows, under all names."""
    return {name for engine in ENGINES.values() for name in (*engine.metrics.names, *engine.metrics.former_names)}
