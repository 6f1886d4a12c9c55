"""Read command lines with the argument parser of ``vllm serve``; no GPU, no network, no model.

Runs inside the engine's environment. Standard input holds a JSON list of argument lists (what follows ``vllm serve``).
Standard output gets one JSON object: ``results``, one per list, with either ``values`` (everything parsed) or ``error``
(what the parser said), and ``spellings``, every option's destination with all the names it is registered under.
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
    json.dump({"results": results, "spellings": _spellings(parser)}, answer, default=str)
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
    except (IndexError, TypeError, ValueError) as error:
        return {"error": str(error)}
    values.model = values.model_tag or values.model
    return {"values": vars(values)}


def _spellings(parser: Any) -> dict[str, list[str]]:
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    options = commands.choices["serve"]._actions  # noqa: SLF001
    return {option.dest: list(option.option_strings) for option in options if option.option_strings}


if __name__ == "__main__":
    main()
