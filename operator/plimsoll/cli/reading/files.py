"""The files that ``-f`` and similar options name, and the text of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import MIB

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")

MAX_YAML_BYTES = 64 * MIB
"""YAML takes about a hundred times its size in memory while it is read."""

MAX_JSON_BYTES = 512 * MIB


def refuse_second_stdin(**options: Iterable[str]) -> None:
    """Raise :class:`InvalidInput` if standard input would be read twice; options are given by name, without dashes."""
    asked = [
        f"-{'-' if len(name) > 1 else ''}{name}" for name, given in options.items() for each in given if each == STDIN
    ]
    if len(asked) > 1:
        raise InvalidInput(" and ".join(asked), STDIN, "Only one of them can be standard input; name a file.")


def files_of(name: str, *, recursive: bool) -> list[str]:
    """Return the files that one ``-f`` names: the file itself, or those of a folder, sorted.

    Raises:
        InvalidInput: the folder cannot be listed, or holds no file with one of the endings.
    """
    if name == STDIN or not Path(name).is_dir():
        return [name]
    try:
        found = sorted(_below(Path(name), recursive=recursive))
    except OSError as error:
        raise InvalidInput("-f", name, f"It cannot be read: {why(error)}.") from error
    if not found:
        where = "It and the folders below it hold" if recursive else "Use -R to look in folders below it, too. It holds"
        raise InvalidInput("-f", name, f"{where} no file that ends in {', '.join(SUFFIXES)}.")
    return [str(path) for path in found]


def _below(folder: Path, *, recursive: bool) -> Iterator[Path]:
    """Yield files with the right endings. Links to folders are not followed, so a loop of links does no harm."""

    def fail(error: OSError) -> None:
        raise error

    for where, folders, names in os.walk(folder, onerror=fail):
        yield from (Path(where, name) for name in names if name.endswith(SUFFIXES))
        if not recursive:
            folders.clear()


def title(name: str) -> str:
    """The name of a file in messages."""
    return "standard input" if name == STDIN else name


def why(error: OSError | ValueError) -> str:
    """Return the cause in words, without the name of the file, which the message has already."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


@lru_cache(maxsize=1)
def _all_of(stream: BinaryIO) -> bytes:
    """Return what a stream holds, which only its first reader gets: one question may be asked of two engines."""
    return stream.read(MAX_JSON_BYTES + 1)


def read_text(name: str) -> str:
    """The text of a file or of standard input.

    Raises:
        InvalidInput: it cannot be read, is no text, or is too large.
    """
    try:
        if name == STDIN:
            content = _all_of(sys.stdin.buffer)
        else:
            with Path(name).open("rb") as file:
                content = file.read(MAX_JSON_BYTES + 1)
        text = content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidInput("file", title(name), f"It cannot be read: {why(error)}.") from error
    limit = MAX_JSON_BYTES if text.lstrip()[:1] == "{" else MAX_YAML_BYTES
    if len(content) > limit:
        raise InvalidInput(
            "file",
            title(name),
            f"It holds more than {limit // MIB} MiB: split it, or write JSON (up to {MAX_JSON_BYTES // MIB} MiB).",
        )
    return text
