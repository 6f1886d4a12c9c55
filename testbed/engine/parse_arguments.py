"""Read command lines with the argument parser of ``vllm serve``; no GPU, no network, no model.

Runs inside the engine's environment. Standard input holds a JSON list of argument lists (what follows ``vllm serve``).
Standard output gets one JSON object: ``results``, one per list, with either ``values`` (everything parsed) or ``error``
(what the parser said), and ``options``: every option's destination with ``names`` (all that it is registered under),
``takes`` (the kind of its values: a ``switch`` takes none, ``maybe-`` begins a kind that also takes nothing and the
word None, ``+`` ends a kind of several values, and ``?`` one that may be left out), ``choices``, and ``registered``,
the names that the server compares a value with when it starts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer one request."""
    # vLLM logs to stdout; keep the real one for the answer and send everything else to stderr.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser, serve = _real_parser()
    results = [_read(parser, serve, argv) for argv in json.load(sys.stdin)]
    json.dump({"results": results, "options": _options(parser)}, answer, default=str)
    answer.close()


def _real_parser() -> tuple[Any, Any]:
    # Imported late: importing vLLM logs, and by now its log goes to stderr.
    from vllm.entrypoints.cli.serve import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        ServeSubcommand,
    )
    from vllm.utils.argparse_utils import (  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
        FlexibleArgumentParser,
    )

    parser = FlexibleArgumentParser(prog="vllm")
    serve = ServeSubcommand()
    serve.subparser_init(parser.add_subparsers(dest="subparser"))
    return parser, serve


def _read(parser: Any, serve: Any, argv: list[str]) -> dict[str, Any]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            values = parser.parse_args(["serve", *argv])
        serve.validate(values)
    except SystemExit:
        # How argparse refuses: the usage, then the reason. It also exits, without either, when asked for help.
        return {"error": said.getvalue().partition("error: ")[2].strip() or "the parser printed help and exited"}
    except Exception as error:  # noqa: BLE001 - the server would end with it, whatever it is
        return {"error": str(error)}
    values.model = values.model_tag or values.model
    return {"values": vars(values)}


def _options(parser: Any) -> dict[str, dict[str, Any]]:
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    serve = commands.choices["serve"]
    options = serve._actions  # noqa: SLF001
    spellings = serve._option_string_actions  # noqa: SLF001
    registered = _registered()
    return {
        option.dest: {
            "names": [*option.option_strings, *_hidden(option, spellings)],
            "takes": _takes(option),
            "choices": [str(each) for each in option.choices or () if each is not None],
            "registered": _with_none(registered.get(option.dest, []), option.type),
        }
        for option in options
        if option.option_strings
    }


def _registered() -> dict[str, list[str]]:
    """The parsers of tool calls and reasoning that come with the release: another name ends the server's start."""
    from vllm.reasoning import ReasoningParserManager  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    from vllm.tool_parsers import ToolParserManager  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    return {
        "tool_call_parser": ToolParserManager.list_registered(),
        "reasoning_parser": ReasoningParserManager.list_registered(),
    }


def _hidden(option: Any, spellings: Any) -> list[str]:
    """The names that the parser takes and its help leaves out (``--no-enable-x`` since 0.33)."""
    return [name for name, taken in spellings.items() if taken is option and name not in option.option_strings]


def _with_none(names: list[str], convert: Any) -> list[str]:
    """The names, and ``none`` where the parser reads it as nothing at all."""
    return [*names, "none"] if names and convert is not None and convert("none") == "" else names


def _takes(option: Any) -> str:
    if option.nargs == 0:
        return "help" if isinstance(option, argparse._HelpAction) else "switch"  # noqa: SLF001
    kind = "adapter" if type(option).__name__ == "LoRAParserAction" else _kind(option.type)
    return kind + {"+": "+", "*": "+", "?": "?"}.get(option.nargs, "")


def _kind(convert: Any) -> str:
    """The kind of values that a converter takes, by what it is made of."""
    name = getattr(convert, "__name__", "")
    inner = [cell.cell_contents for cell in getattr(convert, "__closure__", None) or ()]
    if name == "_optional_type":
        return f"maybe-{_kind(inner[0])}"
    if name == "_parse_type":
        return _kind(inner[0])
    if name == "<lambda>":
        return "word" if convert("A-b") == "a_b" else "text"
    return _KINDS[name]


_KINDS = {
    "": "text",
    "str": "text",
    "int": "whole",
    "float": "number",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size-or-auto",
    "loads": "json",
    "parse_reasoning_parser": "text",
    "parse_dataclass": "object",
    "union_dict_and_str": "text-or-json",
}
"""A converter that is not among them ends the run: it is new, and has to be looked at. ``word``: upper-case letters and
dashes are read as lower-case ones and underscores."""


if __name__ == "__main__":
    main()
