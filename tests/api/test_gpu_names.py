"""A GPU type that does not exist is refused with those that may be meant."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.domain.errors import InvalidInput
from tests.api.manifests import deployment
from tests.support.tables import every_case

KNOWN = frozenset(gpu.name for gpu in load_gpu_types())


@every_case(
    ("change", "field", "offered"),
    [
        ({"gpu": {"allow": ["h100"]}}, "spec.gpu.allow[0]", "h100-nvl-94gb, h100-pcie-80gb or h100-sxm-80gb?"),
        ({"gpu": {"allow": ["h100-sxm"]}}, "spec.gpu.allow[0]", "did you mean h100-sxm-80gb?"),
        ({"gpu": {"allow": ["l4-24gb", "l4"]}}, "spec.gpu.allow[1]", "did you mean l4-24gb, l40-48gb or l40s-48gb?"),
        ({"gpu": {"deny": ["t4"]}}, "spec.gpu.deny[0]", "did you mean t4-16gb?"),
        ({"gpu": {"deny": ["h100-smx-80gb"]}}, "spec.gpu.deny[0]", "did you mean h100-sxm-80gb"),
        ({"overrides": {"gpuType": "mi300x"}}, "spec.overrides.gpuType", "did you mean mi300x-192gb?"),
        ({"gpu": {"allow": ["zzzzzz"]}}, "spec.gpu.allow[0]", "There is no such GPU type; `plimsoll gpus` lists"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_those_like_it(change: dict[str, Any], field: str, offered: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_gpu_names(deployment(**change).spec, KNOWN)
    assert caught.value.field == field
    assert offered in caught.value.fix


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"gpu": {"allow": ["h100-sxm-80gb", "h100-sxm-80gb-mig-3g.40gb"], "deny": ["l4-24gb"]}},
        {"overrides": {"gpuType": "mi300x-192gb"}},
    ],
)
def test_a_known_name_is_taken_slices_included(change: dict[str, Any]) -> None:
    check_gpu_names(deployment(**change).spec, KNOWN)


def test_a_type_that_only_the_fleet_has_is_known() -> None:
    check_gpu_names(deployment(gpu={"allow": ["house-gpu"]}).spec, {*KNOWN, "house-gpu"})


def test_no_slice_is_offered_before_a_whole_gpu() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_gpu_names(deployment(gpu={"allow": ["a100"]}).spec, KNOWN)
    assert "mig" not in caught.value.fix
    with pytest.raises(InvalidInput, match=r"did you mean h100-sxm-80gb-mig-1g\.10gb"):
        check_gpu_names(deployment(gpu={"allow": ["h100-sxm-80gb-mig"]}).spec, KNOWN)
