"""Shell scripts around a server: which words a shell would make, and that no text is too odd to read."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.cli.starts.written_commands import LONGEST_SCRIPT, commands_of
from plimsoll.engines.starts import as_written, unresolved_in
from tests.support.tables import examples
from tests.support.work import counted_calls

VARIABLES = {"MODEL": "org/model", "ARGS": "-tp 2  --eager", "EMPTY": "", "SPACED": "a b"}
MOST_CALLS = 100_000
"""Fifty for each of 2,000 words: a reader that begins anew at each of them needs more."""

SHELL = shutil.which("sh") or ""


def words(script: str) -> list[tuple[str, ...]]:
    return [command.words for command in commands_of(script, VARIABLES)]


SCRIPTS: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "plain words": ("a b  c", [("a", "b", "c")]),
    "quotes": ("""a 'b "c' "d 'e" f\\ g ''""", [("a", 'b "c', "d 'e", "f g", "")]),
    "escapes in quotes": (r'''a "\"\$MODEL\\ \n"''', [("a", r'"$MODEL\ \n')]),
    "lines that go on": ("a \\\n  b\\\nc", [("a", "bc")]),
    "several commands": ("a && b || c; d | e\nf & g", [(each,) for each in "abcdefg"]),
    "subshells": ("(a; b)", [("a",), ("b",)]),
    "comments": ("a # b\n# c\nd#e", [("a",), ("d#e",)]),
    "redirections": ("a >log 2>&1 < in b", [("a", "b")]),
    "variables": ("a $MODEL ${MODEL}x '$MODEL' \"$MODEL\"", [("a", "org/model", "org/modelx", "$MODEL", "org/model")]),
    "words of a variable": ("a $ARGS", [("a", "-tp", "2", "--eager")]),
    "one word of a quoted variable": ('a "$ARGS" x$SPACED-y', [("a", "-tp 2  --eager", "xa", "b-y")]),
    "nothing of an empty variable": ('a $EMPTY "$EMPTY"', [("a", "")]),
    "defaults": (
        "a ${NO:-b} ${NO-c} ${EMPTY:-d} ${EMPTY-e} ${MODEL:+f} ${NO:-$MODEL}",
        [("a", "b", "c", "d", "f", "org/model")],
    ),
    "assignments": ("X=1 Y='2 3'; a $X $Y \"$Y\"", [("a", "1", "2", "3", "2 3")]),
    "an argument that looks like an assignment": ("a b=$SPACED", [("a", "b=a", "b")]),
    "exports": ('export X=$SPACED\na "$X"', [("a", "a b")]),
    "an assignment for one command": ("MODEL=other a; b $MODEL", [("a",), ("b", "org/model")]),
    "a dollar alone": ("a $ b$", [("a", "$", "b$")]),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_words_are_those_of_a_shell(case: str) -> None:
    script, wanted = SCRIPTS[case]
    assert words(script) == wanted


@pytest.mark.parametrize(
    ("script", "expression"),
    [
        ("a $(nproc --all)", "$(nproc --all)"),
        ("a `date '+%s'`", "`date '+%s'`"),
        ("a $NOBODY", "$NOBODY"),
        ('a "${NOBODY}"', "${NOBODY}"),
        ("a $((1 + 2))", "$((1 + 2))"),
        ("a $1", "$1"),
        ("a ${MODEL##*/}", "${MODEL##*/}"),
        ("a ${NO:-$(hostname)}", "$(hostname)"),
    ],
)
def test_what_only_a_run_can_tell_stays_in_one_word(script: str, expression: str) -> None:
    ((_, word),) = words(script)
    assert unresolved_in(word) == expression
    assert as_written(word) == expression


pieces = st.sampled_from(
    [
        "a",
        "b-c",
        " ",
        "  ",
        "'d e'",
        '"f g"',
        "\\ ",
        "\\'",
        "${MODEL}",
        "${ARGS}",
        '"$ARGS"',
        "${EMPTY}",
        "${EMPTY:-x y}",
        "''",
        "=",
        '"\\""',
    ]
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(pieces, max_size=8).map("".join))
def test_a_real_shell_makes_the_same_words(text: str) -> None:
    script = f"printf '%s\\001' . {text}"
    ran = subprocess.run([SHELL, "-c", script], env=VARIABLES, capture_output=True, check=True, text=True)  # noqa: S603
    ((_, _, *found),) = words(script)
    assert "".join(f"{word}\001" for word in found) == ran.stdout


@settings(max_examples=examples(300))
@given(st.text(alphabet="ab ${}()`'\"\\\n;&|<>#:-=", max_size=40))
def test_any_text_becomes_words(script: str) -> None:
    for command in commands_of(script, VARIABLES):
        assert command.words


def test_the_longest_script_is_read_in_one_go() -> None:
    for unit in ("${", "$(", "`", "'", "a ", "${A:-"):
        with counted_calls() as work:
            list(commands_of(unit * 2000, {}))
        assert work.amount < MOST_CALLS, unit
    assert list(commands_of("# " + "x" * (2 * LONGEST_SCRIPT), {})) == []
