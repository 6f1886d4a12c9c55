"""The user's flags against vLLM's own parser: a start that must fail is refused before there is a pod.

What is refused here, that parser refuses (:mod:`~plimsoll.engines.vllm.flag_words`), or the server when it starts. Only
the flags of recorded releases are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.flags import Misuse
from plimsoll.engines.vllm.flag_table import FlagTable, table_for
from plimsoll.engines.vllm.flag_values import registered_lack
from plimsoll.engines.vllm.flag_words import Fault, Problem, Reading, read_words

_TOOLS, _TOOL_PARSER, _TOOL_PLUGIN = "--enable-auto-tool-choice", "--tool-call-parser", "--tool-parser-plugin"
_REASONING, _REASONING_PLUGIN = "--reasoning-parser", "--reasoning-parser-plugin"

_NEEDS = {_TOOLS: _TOOL_PARSER, "--enable-log-outputs": "--enable-log-requests"}
"""Switches, and the option without which the server does not start. Source: ``validate_parsed_serve_args`` in
``entrypoints/launchers/cli_args.py``, 0.32."""


def misused_argument(arguments: Sequence[str], release: EngineVersion) -> Misuse | None:
    """Return the first argument that ends the start of a server; None without any.

    Args:
        arguments: what the user adds to the command line.
        release: the engine's release. Where its flags are not recorded, those of the nearest recorded one count (an
            earlier one where there is any), and the answer names that release.
    """
    table = table_for(release)
    problem = None if "--" in arguments else next(_problems(read_words(arguments, table), table), None)
    if problem is None:
        return None
    return Misuse(problem.position, arguments[problem.position], problem.fix, table.release)


def _problems(reading: Reading, table: FlagTable) -> Iterator[Problem]:
    """Yield what is wrong: first single words in their order, then what they lack together."""
    yield from reading.problems
    yield from lacking(reading, table)


def lacking(reading: Reading, table: FlagTable) -> Iterator[Problem]:
    """Yield the options that a server does not start without, and the parsers that it does not know."""
    for switch, needed in _NEEDS.items():
        found = reading.on(switch)
        if found is not None and reading.on(needed) is None:
            fix = f"{switch} needs {needed}: add it, or remove {switch}."
            yield Problem(found.position, fix, Fault.VALUE, found.option)
    if reading.on(_TOOLS) is not None:
        yield from _unregistered(reading, table, _TOOL_PARSER, _TOOL_PLUGIN)
    yield from _unregistered(reading, table, _REASONING, _REASONING_PLUGIN)


def _unregistered(reading: Reading, table: FlagTable, name: str, plugin: str) -> Iterator[Problem]:
    """Check a parser's name with those that come with the release, unless a plugin brings others."""
    found = reading.on(name)
    if found is None or reading.on(plugin) is not None:
        return
    lack = registered_lack(table.options[name], name, found.value)
    if lack is not None:
        yield Problem(found.position, lack, Fault.VALUE, found.option)
