"""Formats of the KV cache: which arrive, and which the engine's release does not have."""

from __future__ import annotations

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.precision import TURBOQUANT, KvPrecision
from tests.api.manifests import deployment
from tests.support.planning import model
from tests.support.tables import every_case

FIRST = {"nvfp4": "0.20.0", "int8": "0.20.0", "fp8_per_token_head": "0.20.0", "int4": "0.25.0"}
FIRST |= {each.value: "0.24.0" for each in TURBOQUANT}
BEFORE = {"0.20.0": "0.19.1", "0.24.0": "0.23.0", "0.25.0": "0.24.0"}


@every_case("choice", ["bf16", "fp16", "fp8", *FIRST])
def test_every_format_arrives_in_the_newest_release(choice: str) -> None:
    asked = deployment(kvCache={"precision": choice})
    assert to_request(asked, model()).kv_precision is KvPrecision(choice)


@every_case("choice", sorted(FIRST))
def test_a_release_without_the_format_is_refused_with_the_first_that_has_it(choice: str) -> None:
    since = FIRST[choice]
    with pytest.raises(InvalidInput) as refused:
        to_request(deployment(kvCache={"precision": choice}, engine={"version": BEFORE[since]}), model())
    assert refused.value.field == "spec.kvCache.precision"
    assert refused.value.fix == f"vLLM {BEFORE[since]} does not support it: use {since} or newer."


@every_case("choice", sorted(FIRST))
def test_the_first_release_with_the_format_is_taken(choice: str) -> None:
    asked = deployment(kvCache={"precision": choice}, engine={"version": FIRST[choice]})
    assert to_request(asked, model()).kv_precision is KvPrecision(choice)


@pytest.mark.parametrize("choice", ["auto", "bf16", "fp16", "fp8"])
def test_older_formats_need_no_release(choice: str) -> None:
    asked = deployment(kvCache={"precision": choice}, engine={"version": "0.10.0"})
    assert to_request(asked, model()).kv_precision in KvPrecision
