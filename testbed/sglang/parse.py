"""Run by the Python that has SGLang: reads lists of arguments as JSON, and writes what SGLang's parser makes of each.

The answer is one JSON object: ``options`` are the parser's own option strings with the name that each sets, and
``answers`` holds, for each list, either the plain values that it was read as or the last line that the parser wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from typing import Any


def _options() -> dict[str, str]:
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found]  # noqa: PLC0415 - not of this project

    parser = argparse.ArgumentParser(add_help=False)
    ServerArgs.add_cli_args(parser)
    return {word: action.dest for action in parser._actions for word in action.option_strings}  # noqa: SLF001


def _answer(arguments: list[str], names: set[str]) -> dict[str, Any]:
    from sglang.srt.server_args import prepare_server_args  # noqa: PLC0415 - not of this project

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            read = prepare_server_args(arguments)
    except SystemExit:
        return {"refused": said.getvalue().strip().splitlines()[-1]}
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is its answer
        return {"refused": f"{type(error).__name__}: {error}"}
    values = {name: getattr(read, name, None) for name in names}
    return {"read": {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        options = _options()
        answers = [_answer(each, {*options.values()}) for each in asked]
    json.dump({"options": options, "answers": answers}, sys.stdout)
