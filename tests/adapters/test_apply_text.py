"""What is applied is read by the API server as YAML: every text that JSON can hold must arrive."""

from __future__ import annotations

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.cluster.client import apply_text
from tests.support.tables import every_case


@every_case(
    "text",
    ["plain", "\U0001f4a5", "\u202e", "\x00\x1f\x7f\x85\x9f", "\u2028\ufeff", "\\ud83d", 'a"b\n', "\ufffe"],
    ids=ascii,
)
def test_awkward_characters_arrive_as_json(text: str) -> None:
    assert json.loads(apply_text({"message": text})) == {"message": text}


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")))
def test_yaml_reads_the_same(text: str) -> None:
    assert yaml.safe_load(apply_text({"message": text, "nested": [{"text": text}]})) == {
        "message": text,
        "nested": [{"text": text}],
    }
