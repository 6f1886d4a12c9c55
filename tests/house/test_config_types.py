"""The script that makes the table of configurations from wheels."""

from __future__ import annotations

import pytest

from scripts.config_types import kinds_in, oldest_admitted

OWN = """
_CONFIG_REGISTRY_OVERRIDE_HF: dict[str, type] = {"mllama": M}
_CONFIG_REGISTRY: dict[str, type] = {"chatglm": C, **_CONFIG_REGISTRY_OVERRIDE_HF, **{"b-c": B}}
_OTHER = {"other": O}
"""
LAZY = """
_CONFIG_REGISTRY: dict = LazyConfigDict(chatglm="C", **{"unlimited-ocr": "U"})
"""
LIBRARY = """
CONFIG_MAPPING_NAMES = OrderedDict([("albert", "A"), ("bert", "B")])
CONFIG_MAPPING_NAMES.update({"late": "L"})
CONFIG_MAPPING_NAMES = OrderedDict(**{"gpt-sw3": "G"}, **CONFIG_MAPPING_NAMES)
MODEL_NAMES_MAPPING = OrderedDict([("wrong", "W")])
"""


def test_the_kinds_of_every_form_of_a_table_are_found() -> None:
    tables = ("_CONFIG_REGISTRY", "_CONFIG_REGISTRY_OVERRIDE_HF")
    assert kinds_in(OWN, tables) == {"mllama", "chatglm", "b-c"}
    assert kinds_in(LAZY, tables) == {"chatglm", "unlimited-ocr"}
    assert kinds_in(LIBRARY, ["CONFIG_MAPPING_NAMES"]) == {"albert", "bert", "late", "gpt-sw3"}


@pytest.mark.parametrize(
    ("line", "oldest"),
    [
        ("transformers<5.20.0,>=5.16.1", "5.16.1"),
        ("transformers (>=4.48)", "4.48.0"),
        ("transformers==4.51.1", "4.51.1"),
    ],
)
def test_the_oldest_admitted_library_is_the_lower_bound(line: str, oldest: str) -> None:
    other = "Requires-Dist: transformers>=9.9.9; extra == 'x'\nRequires-Dist: transformers-more>=8.8.8"
    assert oldest_admitted(f"{other}\nRequires-Dist: {line}\n") == oldest


def test_metadata_without_a_bound_are_named() -> None:
    with pytest.raises(ValueError, match="no oldest release of Transformers"):
        oldest_admitted("Requires-Dist: torch==2.9")
