#!/usr/bin/env python3
"""Write the options of ``vllm serve`` of every recorded release into the package.

    python -m scripts.serve_options           # writes operator/plimsoll/engines/vllm/releases/serve_options.py
    python -m scripts.serve_options --check   # says whether that file is what was recorded

``make record-engine`` asks the engine's own parser for them and keeps its answer in ``tests/engine/recorded``.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plimsoll.domain.engines.engine_choice import EngineVersion

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "releases" / "serve_options.py"
RECORDED = ROOT / "tests" / "engine" / "recorded"

QUESTION = '"every option"'
"""The key of the parser's options in a file of recorded answers."""

_GONE = "!"
_WIDTH = 112
_HEAD = '''"""The options of ``vllm serve`` of each recorded release. Made by scripts/serve_options.py.

Source: the release's own argument parser, as ``testbed/engine/parse_arguments.py`` describes it, and the names of its
parsers of tool calls and reasoning. A row has the names of an option, the kind of its values, and after ``=`` its
choices, or after ``~`` the names that the server knows when it starts. Only the first release has all its options: the
others have what differs from the release before, and ``!`` in front of an option that they do not have any more.
"""

from __future__ import annotations

SERVE_OPTIONS = {
'''


def text_of(recorded: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the module that holds the options of each release."""
    rows = [(release, _rows(recorded[release])) for release in sorted(recorded, key=EngineVersion.of)]
    before: list[dict[str, str]] = [{}, *(own for _, own in rows)]
    texts = (
        (release, "\n".join(_changed(earlier, own))) for earlier, (release, own) in zip(before, rows, strict=False)
    )
    blocks = (f'    "{release}": """\\\n{text}\n""",\n' for release, text in texts)
    return f"{_HEAD}{''.join(blocks)}}}\n"


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield the rows that differ from those of the release before, and the options that went."""
    yield from (f"{_GONE} {name}" for name in sorted(before.keys() - now.keys()))
    yield from (row for name, row in sorted(now.items()) if row != before.get(name))


def _rows(options: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the rows by the first name of each option."""
    return {str(option["names"][0]): _row(option) for option in options.values()}


def _row(option: Mapping[str, Any]) -> str:
    words = [*option["names"], option["takes"]]
    words += ["=", *option["choices"]] if option["choices"] else []
    words += ["~", *option["registered"]] if option["registered"] else []
    return textwrap.fill(
        " ".join(words), _WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def recorded_options() -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Return what is recorded, by release."""
    files = sorted(RECORDED.glob("vllm-*/parser.json"))
    return {
        file.parent.name.removeprefix("vllm-"): json.loads(file.read_text(encoding="utf-8"))[QUESTION] for file in files
    }


def main(arguments: list[str]) -> int:
    """Write the table, or say whether it is up to date."""
    text = text_of(recorded_options())
    if "--check" in arguments:
        is_current = TABLE.exists() and TABLE.read_text(encoding="utf-8") == text
        if not is_current:
            sys.stderr.write(f"{TABLE} is not what was recorded: run python -m scripts.serve_options\n")
        return 0 if is_current else 1
    TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
