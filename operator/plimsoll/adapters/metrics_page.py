"""Read the metrics page of one engine: only the series that the operator knows, whatever else the page has.

A page of vLLM has some 600 lines for each rank, and less than 30 of them are used. The others are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from plimsoll.adapters.engine_series import MOST_SERIES, Series
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.engines.metrics import EngineMetrics

MOST_CHARACTERS = 512 * 1024
"""Characters of all series that are read. Those of 64 ranks have some 240,000. The parser takes 0.3 s for the most."""

LONGEST_SERIES = 8192
"""Characters of a series with its labels. vLLM's longest, which says how the KV cache is configured, has some 1000. The
parser's time grows with the square of a line's length: one of a megabyte takes it seven seconds."""


def read_page(text: str, at: float, metrics: EngineMetrics) -> list[Series]:
    """Return the known series of a page in Prometheus' text format, each with one point at the time of the scrape.

    Labels that are not the engine's own are left out: nothing else sets any.

    Raises:
        SourceUnavailable: a line of a known series cannot be read or is too long, or there are too many of them.
    """
    wanted = "|".join(re.escape(name) for name in (*metrics.names, *metrics.former_names))
    lines = re.findall(rf"^(?:{wanted})[ \t{{].*$", text, re.MULTILINE)
    if len(lines) > MOST_SERIES:
        raise SourceUnavailable(f"its metrics have more than {MOST_SERIES} series")
    if sum(map(len, lines)) > MOST_CHARACTERS:
        raise SourceUnavailable(f"its metrics have series of more than {MOST_CHARACTERS} characters")
    if max(map(len, lines), default=0) > LONGEST_SERIES:
        raise SourceUnavailable(f"its metrics have a series of more than {LONGEST_SERIES} characters")
    try:
        found = [_series(sample, at, metrics) for sample in _samples(lines)]
    except Exception as error:  # the parser names no error: a hostile line raises whatever it leads to
        raise SourceUnavailable("its metrics are not in Prometheus' text format") from error
    return found


def _samples(lines: list[str]) -> Iterator[Sample]:
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        yield from family.samples


def _series(sample: Sample, at: float, metrics: EngineMetrics) -> Series:
    kept = sample.labels
    if metrics.former_names.get(sample.name, sample.name) != metrics.capacity:
        kept = {name: value for name, value in sample.labels.items() if name in metrics.labels}
    return Series.of({**kept, "__name__": sample.name}, {at: sample.value}, metrics)
