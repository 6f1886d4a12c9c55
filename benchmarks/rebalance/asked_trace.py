"""The arguments for a trace of the user's own."""

from __future__ import annotations

import argparse
import math
from dataclasses import fields
from pathlib import Path

from benchmarks.rebalance.own import Own, own_situation
from benchmarks.rebalance.scenarios.situation import Situation

DEFAULTS = Own(Path())
OPTIONS = tuple(each.name for each in fields(Own) if each.name != "trace")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace`` and the options that belong to it. Their defaults are those of :class:`Own`."""
    group = parser.add_argument_group("a trace of your own", "docs/rebalance-benchmark.md says what the file holds")
    group.add_argument("--trace", type=Path, metavar="FILE", help="requests with their times and lengths")
    group.add_argument("--model", metavar="NAME", help=_usually("a model of the catalogue", "model"))
    group.add_argument("--gpu", metavar="TYPE", help=_usually("a GPU type of the catalogue", "gpu"))
    for name, text in (
        ("tp", "GPUs of a replica"),
        ("context-length", "the most tokens of a prompt with its answer"),
        ("concurrency", "requests at the same time of one replica, as a user declares them"),
        ("start-replicas", "replicas at the beginning"),
        ("max-replicas", "the most replicas"),
    ):
        group.add_argument(f"--{name}", type=_count, metavar="N", help=_usually(text, name))
    for name, text in (
        ("rate-factor", "how many times each request comes"),
        ("cold-start", "seconds of a start"),
        ("scrape", "seconds between two scrapes"),
        ("ttft", "seconds that are promised for the first token"),
        ("tpot", "seconds that are promised for each later token"),
    ):
        group.add_argument(f"--{name}", type=_amount, metavar="X", help=_usually(text, name))


def asked_situation(found: argparse.Namespace) -> Situation | None:
    """Return the situation of the user's trace; None without one.

    Raises:
        ValueError: an option has no trace to belong to, or the situation is wrong.
    """
    given = {name: value for name in OPTIONS if (value := getattr(found, name)) is not None}
    if found.trace is not None:
        return own_situation(Own(found.trace, **given))
    if given:
        raise ValueError(f"--{next(iter(given)).replace('_', '-')}: it belongs to --trace FILE, which is missing")
    return None


def _usually(text: str, name: str) -> str:
    value = getattr(DEFAULTS, name.replace("-", "_"))
    return f"{text}, usually {value:g}" if isinstance(value, float) else f"{text}, usually {value}"


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return found
