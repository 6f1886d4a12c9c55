"""The command line has one glossary of options, and every command takes its options from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import plimsoll
from plimsoll.cli.main import COMMANDS, cli
from plimsoll.cli.options import GLOSSARY, RENAMED

SOURCES = Path(plimsoll.__file__).parent
_BY_CLICK = {"help", "version"}


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its words, those of groups too."""
    context = click.Context(cli)
    pending = [(name, cli.get_command(context, name)) for name in COMMANDS]
    for words, command in pending:
        assert command is not None
        yield words, command
        if isinstance(command, click.Group):
            pending += [(f"{words} {name}", each) for name, each in command.commands.items()]


def options() -> list[tuple[str, click.Option]]:
    return [
        (words, each)
        for words, command in commands()
        for each in command.params
        if isinstance(each, click.Option) and each.name not in _BY_CLICK
    ]


def long_name(each: click.Option) -> str:
    return next(name for name in each.opts if name.startswith("--"))


def test_an_option_has_the_names_the_type_and_the_words_of_the_glossary() -> None:
    for words, each in options():
        entry = GLOSSARY[long_name(each)]
        names = {part for name in entry.names for part in name.split("/") if part.startswith("-")}
        assert {*each.opts, *each.secondary_opts} == names, words
        assert (each.help or "").startswith(entry.help), (words, entry.long)
        if isinstance(entry.kind, click.ParamType):
            assert each.type is entry.kind, (words, entry.long)


def test_every_entry_is_an_option_of_some_command() -> None:
    assert {long_name(each) for _, each in options()} == set(GLOSSARY)


def test_no_module_makes_an_option_of_its_own() -> None:
    makers = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if "click.option(" in path.read_text(encoding="utf-8")
    ]
    assert makers == ["cli/options.py"]


def test_a_context_is_the_kubeconfig_s_and_tokens_have_their_own_name() -> None:
    for words, each in options():
        if "--context" in each.opts:
            assert "kubeconfig" in (each.help or ""), words
        elif "token" in (each.help or "").lower() and each.name and "context" in each.name:
            assert each.opts == ["--context-length"], words


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_what_options_are_called_now_is_in_the_glossary(old: str, new: str) -> None:
    assert new in GLOSSARY
    assert old != new


def test_every_table_of_a_terminal_has_the_one_style() -> None:
    others = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if "rich.table" in path.read_text(encoding="utf-8")
    ]
    assert others == []
