"""Of an object's labels Kueue's are read, whatever else somebody wrote there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.kubernetes_names import QUEUE_LABEL, QUEUE_PRIORITY_LABEL
from tests.support.installed import inference_deployment

ANYTHING = st.none() | st.text() | st.integers() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers())
NAMES = st.sampled_from([QUEUE_LABEL, QUEUE_PRIORITY_LABEL, "team", "plimsoll.dev/pool"])


def queue(labels: Any) -> dict[str, str]:
    """The queue labels that an object's pods get."""
    body = inference_deployment("x", "ns")
    body["metadata"]["labels"] = labels
    return dict(to_workload_options(parse_inference_deployment(body)).queue)


def test_both_labels_are_read_and_no_other() -> None:
    both = {QUEUE_LABEL: "team-a", QUEUE_PRIORITY_LABEL: "low"}
    assert queue(both | {"team": "a"}) == both
    assert queue({QUEUE_LABEL: "team-a"}) == {QUEUE_LABEL: "team-a"}


@given(labels=ANYTHING | st.dictionaries(NAMES, ANYTHING))
def test_nonsense_in_labels_is_no_queue_and_no_error(labels: Any) -> None:
    found = queue(labels)
    assert found.keys() <= {QUEUE_LABEL, QUEUE_PRIORITY_LABEL}
    assert all(labels[name] == value != "" for name, value in found.items())


@pytest.mark.parametrize("labels", [None, [], "x", 7])
def test_labels_that_are_no_mapping_are_none(labels: Any) -> None:
    assert queue(labels) == {}
