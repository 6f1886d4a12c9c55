"""Labels, annotations and owner references of any content harm no object."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.decision.surroundings import read_pools
from plimsoll.render.names import DEPLOYMENT_LABEL, HASH_ANNOTATION, MANAGED_BY, POOL_ANNOTATION, POOL_LABEL
from plimsoll.status.record.reading import Record
from tests.app.test_workload_trust import around, changed
from tests.support.bodies import POOL, Body, pod_body
from tests.support.tables import examples

any_annotations = st.dictionaries(
    st.sampled_from([POOL_ANNOTATION, HASH_ANNOTATION, "x"]),
    st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps),
)
any_labels = st.dictionaries(
    st.sampled_from([DEPLOYMENT_LABEL, POOL_LABEL, MANAGED_BY]), st.sampled_from(["llama", POOL, "x"])
)
any_references: st.SearchStrategy[list[Any]] = st.lists(
    st.fixed_dictionaries(
        {}, optional={"kind": st.text(), "name": st.text(), "uid": st.just("u1"), "controller": st.booleans()}
    ),
    max_size=2,
)


@given(any_labels, any_annotations, any_references)
@settings(max_examples=examples(150), deadline=None)
def test_no_labels_annotations_or_references_harm_anybody(
    labelled: dict[str, str], annotated: dict[str, str], referred: list[Any]
) -> None:
    def change(head: Body) -> None:
        head["labels"] |= labelled
        head["annotations"] = annotated
        head["ownerReferences"] = referred

    pod = pod_body("p")
    change_pod = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], **labelled}, "ownerReferences": referred}
    seen = around(changed(change), pods=({**pod, "metadata": change_pod},))
    read_pools(Record(), seen, wanted=1, now=0, grace_seconds=1)
