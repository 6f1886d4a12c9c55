"""Traces from files of others: our own columns, or the files of Azure and Mooncake as they are published.

All are turned into the requests of a run: sorted, and with times that count from the first one.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Final

from plimsoll.simulation.values import Arrival

OWN_COLUMNS: Final = ("seconds", "prompt_tokens", "output_tokens")
"""``cached_tokens`` may be there too: the tokens of a prompt that may be in a prefix cache."""

AZURE_COLUMNS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE_KEYS: Final = ("timestamp", "input_length", "output_length")
"""Times are in milliseconds. ``hash_ids`` may be there too: the blocks of the prompt, of 512 tokens each."""

FORMATS: Final = (
    f"a CSV file with the columns {', '.join(OWN_COLUMNS)} and perhaps cached_tokens; "
    f"a CSV file with the columns {', '.join(AZURE_COLUMNS)} (Azure); "
    f"or lines of JSON with {', '.join(MOONCAKE_KEYS)} and perhaps hash_ids (Mooncake)"
)

Row = Mapping[str, object]


@cache
def read_trace(path: Path) -> tuple[Arrival, ...]:
    """Return the requests of a file in the order of their arrival. A file that ends in ``.gz`` is unpacked.

    Raises:
        ValueError: the file cannot be read, has no request, or a line is wrong. The message names the line.
    """
    try:
        found = [*_requests(_lines(path))]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}, {error}") from error
    first = min(each.at for each in found)
    return tuple(sorted((replace(each, at=each.at - first) for each in found), key=attrgetter("at")))


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    return text.splitlines()


def _requests(lines: Sequence[str]) -> Iterator[Arrival]:
    if not any(map(str.strip, lines)):
        raise ValueError("line 1: the file is empty")
    count = 0
    for number, row in _rows(lines):
        count += 1
        try:
            yield _request(row)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    if not count:
        raise ValueError("line 1: no request follows")


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Yield each row with the number of its line."""
    if lines[0].lstrip().startswith("{"):
        yield from ((number, _parsed(number, line)) for number, line in enumerate(lines, 1) if line.strip())
        return
    reader = csv.DictReader(lines)
    names = set(reader.fieldnames or ())
    if not (names >= set(OWN_COLUMNS) or names >= set(AZURE_COLUMNS)):
        raise ValueError(f"line 1: the columns are {', '.join(reader.fieldnames or ())}; a trace is {FORMATS}")
    yield from ((reader.line_num, row) for row in reader)


def _parsed(number: int, line: str) -> Row:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}: not JSON: {error}") from error
    if not isinstance(found, dict) or not found.keys() >= set(MOONCAKE_KEYS):
        raise ValueError(f"line {number}: it lacks {', '.join(MOONCAKE_KEYS)}; a trace is {FORMATS}")
    return found


def _request(row: Row) -> Arrival:
    if "seconds" in row:
        at, names = _number(row, "seconds"), OWN_COLUMNS[1:]
    elif "TIMESTAMP" in row:
        at, names = _moment(str(row["TIMESTAMP"])), AZURE_COLUMNS[1:]
    else:
        at, names = _number(row, "timestamp") / 1000, MOONCAKE_KEYS[1:]
    prompt, output = (_tokens(row, each) for each in names)
    cached = _tokens(row, "cached_tokens", least=0) if row.get("cached_tokens") and "seconds" in row else 0
    return Arrival(at, prompt, output, min(cached, prompt - 1), _blocks(row))


def _blocks(row: Row) -> tuple[int, ...]:
    """Return the ids of the blocks of a prompt; empty if the file has none."""
    hashes = row.get("hash_ids", [])
    if not isinstance(hashes, list) or not all(type(each) is int and each >= 0 for each in hashes):
        raise ValueError(f"hash_ids: {hashes!r} is not a list of whole numbers from 0")
    return tuple(hashes)


def _moment(text: str) -> float:
    """Return POSIX seconds. A time without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"TIMESTAMP: {text!r} is not a date and a time") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _number(row: Row, name: str) -> float:
    try:
        found = float(str(row[name]))
    except ValueError as error:
        raise ValueError(f"{name}: {row[name]!r} is not a number") from error
    if not math.isfinite(found):
        raise ValueError(f"{name}: {row[name]!r} is not a finite number")
    return found


def _tokens(row: Row, name: str, least: int = 1) -> int:
    found = _number(row, name)
    if found < least or found != int(found):
        raise ValueError(f"{name}: {row[name]!r} is not a whole number from {least}")
    return int(found)
