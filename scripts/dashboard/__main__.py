"""Write the chart's Grafana dashboard from the tables of its panels.

python -m scripts.dashboard           # write the file
python -m scripts.dashboard --check   # write nothing; exit 1 where the file is not what the tables say
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from scripts.dashboard.accuracy import ACCURACY
from scripts.dashboard.fleet_and_placement import FLEET, PLACEMENT
from scripts.dashboard.health import OPERATOR
from scripts.dashboard.live import LIVE
from scripts.dashboard.panel import Panel, Query, Row

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "charts" / "plimsoll" / "dashboards" / "plimsoll.json"

ROWS = (FLEET, PLACEMENT, LIVE, ACCURACY, OPERATOR)

COLUMNS, WIDTH, HEIGHT = 24, 8, 8
"""Grafana's grid has 24 columns. A panel is a third of it."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The data source that the person has chosen."""

KNOWN = '{__name__=~"plimsoll_unplaced_replicas|plimsoll_problems"}'
"""Has a series for each deployment, whether it can be planned or not."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard in Grafana's model."""
    return {
        "uid": "plimsoll",
        "title": "Plimsoll",
        "description": "Placement, live load, accuracy and health of the Plimsoll operator.",
        "tags": ["gpu", "llm", "plimsoll"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    yield _choice("namespace", "Namespace", f"label_values({KNOWN}, namespace)")
    of_namespaces = KNOWN.replace("}", ',namespace=~"$namespace"}')
    yield _choice("deployment", "Deployment", f"label_values({of_namespaces}, name)")


def _choice(name: str, label: str, query: str) -> dict[str, Any]:
    everything = {"selected": True, "text": ["All"], "value": ["$__all"]}
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": everything,
    }


def _panels() -> Iterator[dict[str, Any]]:
    ids, top = count(1), 0
    for row in ROWS:
        yield {"id": next(ids), "type": "row", "title": row.title, "collapsed": False, "panels": [], **_at(top, 0, 1)}
        for place, panel in enumerate(row.panels):
            down, across = divmod(place * WIDTH, COLUMNS)
            yield _panel(panel, next(ids)) | _at(top + 1 + down * HEIGHT, across, HEIGHT)
        top += 1 + _lines(row) * HEIGHT


def _lines(row: Row) -> int:
    return -(-len(row.panels) * WIDTH // COLUMNS)


def _at(top: int, left: int, height: int) -> dict[str, Any]:
    return {"gridPos": {"x": left, "y": top, "w": COLUMNS if height == 1 else WIDTH, "h": height}}


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    drawn = {"lineWidth": 1, "fillOpacity": 20 if panel.stacked else 0, "showPoints": "never"}
    stacking = {"stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"}}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [_target(query, place) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": drawn | stacking}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _target(query: Query, place: int) -> dict[str, Any]:
    name = "ABCDEFGH"[place]
    return {"refId": name, "datasource": SOURCE, "expr": query.expression, "legendFormat": query.legend}


def main(arguments: list[str]) -> int:
    """Write the file, or with ``--check`` only compare it. Returns the exit status."""
    is_stale = not DASHBOARD.exists() or DASHBOARD.read_text(encoding="utf-8") != text()
    if "--check" in arguments:
        if is_stale:
            sys.stderr.write(f"{DASHBOARD.relative_to(ROOT)} is old: run python -m scripts.dashboard\n")
        return 1 if is_stale else 0
    DASHBOARD.parent.mkdir(parents=True, exist_ok=True)
    DASHBOARD.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
