"""Documents of registries: what an index names for Linux, and that no document breaks the reader."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.facts.cluster.image_manifests import (
    MOST_ENTRIES,
    config_architectures,
    config_digest,
    index_architectures,
)
from tests.support.registry import DIGEST, index
from tests.support.tables import every_case, examples

NAMES = st.sampled_from(["amd64", "arm64", "s390x", "unknown", "AMD64", "a" * 17, "", 7, None])
SYSTEMS = st.sampled_from(["linux", "windows", "unknown", "Linux", None, 1])
PLATFORMS = st.fixed_dictionaries({}, optional={"os": SYSTEMS, "architecture": NAMES, "variant": st.just("v8")})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["manifests", "platform", "os", "architecture", "config", "digest"]), inner)
    ),
    max_leaves=12,
)


@every_case(
    ("document", "found"),
    [
        (index("linux/amd64", "linux/arm64/v8", "linux/amd64"), ("amd64", "arm64")),
        (index("windows/amd64"), ()),
        (index("linux/arm64", "windows/amd64"), ("arm64",)),
        ({"manifests": []}, ()),
        ({"manifests": [{"digest": DIGEST}, 1, None, [], {"platform": []}]}, ()),
        ({"config": {"digest": DIGEST}}, None),
        ({"manifests": {}}, None),
        ([], None),
        ("text", None),
    ],
)
def test_an_index_names_what_it_has_for_linux(document: Any, found: tuple[str, ...] | None) -> None:
    assert index_architectures(document) == found


def test_an_index_without_end_is_read_in_part() -> None:
    entries = [{"platform": {"os": "linux", "architecture": f"a{number}"}} for number in range(MOST_ENTRIES + 50)]
    found = index_architectures({"manifests": entries})
    assert found is not None
    assert len(found) == MOST_ENTRIES


def test_an_image_of_one_platform_names_its_configuration() -> None:
    assert config_digest({"config": {"digest": DIGEST}}) == DIGEST
    wrong: list[Any] = ["sha256:../../x", "sha256:" + "A" * 64, DIGEST + "/x", 7, None, [DIGEST]]
    assert {config_digest({"config": {"digest": each}}) for each in wrong} == {""}
    assert config_architectures({"os": "linux", "architecture": "arm64"}) == ("arm64",)
    assert config_architectures({"os": "windows", "architecture": "amd64"}) == ()


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"platform": PLATFORMS}), max_size=6))
def test_what_an_index_names_is_exactly_its_usable_entries_for_linux(entries: list[dict[str, Any]]) -> None:
    named = [each.get("platform", {}) for each in entries]
    usable = {each.get("architecture") for each in named if each.get("os") == "linux"}
    assert index_architectures({"manifests": entries}) == tuple(sorted(usable & {"amd64", "arm64", "s390x"}))


@settings(max_examples=examples(300), deadline=None)
@given(JSON)
def test_no_document_breaks_the_reader(document: Any) -> None:
    read = json.loads(json.dumps(document))
    for found in (index_architectures(read), config_architectures(read)):
        assert found is None or all(each.isascii() and each.isalnum() for each in found)
    assert isinstance(config_digest(read), str)
