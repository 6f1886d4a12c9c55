"""The script that makes the table of options, and the table itself: each later release is kept as a difference."""

from __future__ import annotations

from typing import Any

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.flags.table import Option, table_for
from plimsoll.engines.vllm.releases.serve_options import SERVE_OPTIONS
from scripts.serve_options import recorded_options, text_of
from tests.support.tables import every_case


def option(*names: str, takes: str = "switch", choices: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"names": list(names), "takes": takes, "choices": list(choices), "registered": []}


def test_a_later_release_has_only_what_it_changes() -> None:
    same, wide = option("--same"), option("--mode", takes="text", choices=("a", "b"))
    text = text_of(
        {
            "0.10.0": {"1": same, "2": wide, "3": option("--new", takes="whole")},
            "0.9.0": {"1": same, "2": option("--mode", takes="text", choices=("a",)), "3": option("--gone")},
        }
    )
    assert '"0.9.0": """\\\n--gone switch\n--mode text = a\n--same switch\n"""' in text
    assert '"0.10.0": """\\\n! --gone\n--mode text = a b\n--new whole\n"""' in text


@every_case("release", sorted(recorded_options()))
def test_each_release_has_the_options_that_were_recorded(release: str) -> None:
    recorded = {Option.recorded(each) for each in recorded_options()[release].values()}
    table = table_for(EngineVersion.of(release))
    assert set(table.options.values()) == recorded
    assert {name for each in recorded for name in each.names} == set(table.options)


def test_only_the_first_release_is_kept_whole() -> None:
    first, *later = SERVE_OPTIONS
    assert all(len(SERVE_OPTIONS[each]) < len(SERVE_OPTIONS[first]) / 2 for each in later)
