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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "operator" / "plimsoll" / "engines" / "vllm" / "releases" / "serve_options.py"
RECORDED = ROOT / "tests" / "engine" / "recorded"

QUESTION = '"every option"'
"""The key of the parser's options in a file of recorded answers."""

_WIDTH = 112
_HEAD = '''"""The options of ``vllm serve`` of each recorded release. Made by scripts/serve_options.py.

Source: the release's own argument parser, as ``testbed/engine/parse_arguments.py`` describes it, and the names of its
parsers of tool calls and reasoning. A row has the names of an option, the kind of its values, and after ``=`` its
choices, or after ``~`` the names that the server knows when it starts.
"""

from __future__ import annotations

SERVE_OPTIONS = {
'''


def text_of(recorded: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the module that holds the options of each release."""
    blocks = (f'    "{release}": """\\\n{_rows(options)}\n""",\n' for release, options in sorted(recorded.items()))
    return f"{_HEAD}{''.join(blocks)}}}\n"


def _rows(options: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(sorted(map(_row, options.values())))


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
