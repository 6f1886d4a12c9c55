"""One candidate at a time: every reason to turn it down, in the order in which a person would want to hear of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import count, takewhile

import pytest

from plimsoll.domain.cluster.fleet import Fleet, Taint, Toleration
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.cluster.host import DISK, HostRoom
from plimsoll.domain.cluster.node_rules import (
    DRIVER_LABEL,
    Claim,
    ClaimHolder,
    Requirement,
    disk_rule,
    driver_rule,
    left_rule,
    rules_of,
)
from plimsoll.domain.decisions.outcomes import Fit, Option, Rejection, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import MAY_PASS, Reason
from plimsoll.domain.requests.serving import GpuConstraints, ObservedCapacity, Overrides, Request
from plimsoll.domain.units import GIB
from plimsoll.placement.options.candidates import candidate_on
from plimsoll.placement.options.feasibility import judge
from tests.support.planning import (
    H100,
    L4,
    L40S,
    LLAMA_8B,
    LLAMA_70B,
    MI300X,
    T4,
    architecture_rule,
    fleet,
    gpu,
    model,
    node,
    placed,
    refusals,
    request,
    unplaceable,
)
from tests.support.tables import every_case

FLEET = fleet(
    replace(
        node("h100", H100, labels={"kubernetes.io/arch": "amd64", "zone": "a", DRIVER_LABEL: "535"}),
        host=HostRoom(others=((DISK, 100),)),
    ),
    node("l4", L4, 1),
    node("t4", T4, 4),
)


ONE = Split(1)

CUT_REASONS = {
    Reason.STAGES_EXCEED_LAYERS: Split(1, 64),
    Reason.EXPERTS_NOT_DIVISIBLE: Split(1, expert_parallel=True),
    Reason.CONTEXT_RANKS_NOT_DIVISIBLE: Split(2, context_parallel=2),
    Reason.DATA_PARALLEL_NEEDS_EXPERTS: Split(1, data_parallel=2, expert_parallel=True),
}
"""Splits that no placement proposes for a dense model of 32 layers and 8 KV heads."""


def widened(facts: ModelFacts, width: int) -> ModelFacts:
    """The same model with an MLP of another width."""
    weights = tuple(
        replace(weight, outputs=width) if weight.name in ("mlp.gate_proj", "mlp.up_proj") else weight
        for weight in facts.kinds[0].weights
    )
    return replace(facts, kinds=(replace(facts.kinds[0], weights=weights), *facts.kinds[1:]))


def verdict(wanted: Request, kind: str = H100, degree: int = 1, where: Fleet = FLEET) -> Option | Rejection:
    there = where.of_type(kind)[0]
    return judge(wanted, candidate_on(there.gpu, Split(degree), where, restricted=False), where)


def rejection(wanted: Request, kind: str = H100, degree: int = 1, where: Fleet = FLEET) -> Rejection:
    said = verdict(wanted, kind, degree, where)
    assert isinstance(said, Rejection)
    return said


def test_what_fits_is_a_choice_with_its_working() -> None:
    said = verdict(request())
    assert isinstance(said, Option)
    assert (said.gpu.name, said.split, said.hourly_price) == (H100, Split(1), Decimal("3.078"))
    assert said.estimate.fit is Fit.SURE


@every_case(
    ("wanted", "kind", "degree", "reason", "numbers"),
    [
        pytest.param(
            request(overrides=Overrides(gpu_type=L4)), H100, 1, Reason.GPU_TYPE_NOT_FORCED, {"forced": L4}, id="type"
        ),
        pytest.param(
            request(overrides=Overrides(tensor_parallel=4)), H100, 2, Reason.SPLIT_NOT_FORCED, {"forced": 4}, id="split"
        ),
        pytest.param(
            request(constraints=GpuConstraints(deny=(H100,))),
            H100,
            1,
            Reason.GPU_TYPE_DENIED,
            {"field": "spec.gpu.deny"},
            id="denied",
        ),
        pytest.param(
            request(constraints=GpuConstraints(allow=(L4,))),
            H100,
            1,
            Reason.GPU_TYPE_DENIED,
            {"field": "spec.gpu.allow"},
            id="not among the allowed",
        ),
        pytest.param(
            request(constraints=GpuConstraints(max_per_replica=2)),
            H100,
            4,
            Reason.TOO_MANY_GPUS_PER_REPLICA,
            {"gpus": 4, "limit": 2},
            id="too many",
        ),
        pytest.param(
            request(),
            T4,
            1,
            Reason.PRECISION_NOT_SUPPORTED,
            {"need": "compute capability 8.0", "have": "7.5"},
            id="gate",
        ),
        pytest.param(
            request(engine=EngineChoice(EngineVersion(0, 32), image_vendor=Vendor.AMD)),
            H100,
            1,
            Reason.IMAGE_FOR_OTHER_VENDOR,
            {"image_vendor": "amd", "gpu_vendor": "nvidia"},
            id="image",
        ),
        pytest.param(
            request(node_rules=(architecture_rule(("arm64",)),)),
            H100,
            1,
            Reason.IMAGE_FOR_OTHER_PLATFORM,
            {"nodes": 1, "platforms": "linux/arm64", "source": "Declared"},
            id="platform",
        ),
        pytest.param(
            request(node_rules=rules_of([Claim("w", terms=((Requirement("zone", "In", ("b",)),),))])),
            H100,
            1,
            Reason.VOLUME_ELSEWHERE,
            {"nodes": 1, "claim": "w", "where": "zone in b"},
            id="volume",
        ),
        pytest.param(
            request(node_rules=rules_of([Claim("w", ("ReadWriteOnce",), held_by=(ClaimHolder("s", "cpu"),))])),
            H100,
            1,
            Reason.VOLUME_IN_USE,
            {"nodes": 1, "claim": "w", "pod": "s", "node": "cpu"},
            id="volume in use",
        ),
        pytest.param(
            request(node_rules=(disk_rule(101),)),
            H100,
            1,
            Reason.NODE_DISK_TOO_SMALL,
            {"nodes": 1, "least_bytes": 101, "largest_bytes": 100},
            id="disk",
        ),
        pytest.param(
            request(node_rules=(driver_rule(580),)),
            H100,
            1,
            Reason.DRIVER_TOO_OLD,
            {"nodes": 1, "least": 580},
            id="driver",
        ),
        pytest.param(
            request(node_rules=(left_rule({"h100": "GpuUnusable"}),)),
            H100,
            1,
            Reason.NODE_LEFT,
            {"nodes": 1, "left": "h100 (GpuUnusable)"},
            id="left",
        ),
        pytest.param(
            request("Qwen/Qwen2.5-7B-Instruct"), H100, 8, Reason.HEADS_NOT_DIVISIBLE, {"heads": 28}, id="heads"
        ),
        pytest.param(
            request("microsoft/phi-4"), H100, 4, Reason.KV_HEADS_NOT_DIVISIBLE, {"kv_heads": 10}, id="kv heads"
        ),
        pytest.param(
            request(widened(model(), 14338)),
            H100,
            4,
            Reason.WIDTH_NOT_DIVISIBLE,
            {"what": "intermediate_size", "width": 14338, "next_degree": 2},
            id="width",
        ),
        pytest.param(
            request("Qwen/Qwen3-235B-A22B-FP8"),
            H100,
            8,
            Reason.QUANT_BLOCK_NOT_DIVISIBLE,
            {"what": "moe_intermediate_size", "width": 192, "block": 128, "next_degree": 4},
            id="block",
        ),
        pytest.param(
            request(node_selector=(("zone", "b"),)), H100, 1, Reason.NODES_NOT_SELECTED, {"nodes": 1}, id="selector"
        ),
        pytest.param(request(), L4, 2, Reason.NODE_TOO_SMALL, {"gpus": 2, "largest": 1}, id="small node"),
        pytest.param(request(LLAMA_70B), H100, 1, Reason.TOO_LITTLE_VRAM, {}, id="weights"),
        pytest.param(
            request(context=131_072, concurrency=8),
            H100,
            1,
            Reason.KV_CACHE_TOO_SMALL,
            {"need_tokens": 1_048_576},
            id="cache",
        ),
        pytest.param(
            request(observed=(ObservedCapacity(H100, ONE, 1000), ObservedCapacity(L4, ONE, 1))),
            H100,
            1,
            Reason.OBSERVED_TOO_SMALL,
            {"need_tokens": 32_768, "have_tokens": 1000},
            id="observed",
        ),
        pytest.param(replace(request(), failed_starts=((H100, ONE),)), H100, 1, Reason.START_FAILED, {}, id="failed"),
        pytest.param(
            request(constraints=GpuConstraints(max_hourly_price=Decimal("3.07"))),
            H100,
            1,
            Reason.TOO_EXPENSIVE,
            {"price": "3.078", "limit": "3.07"},
            id="price",
        ),
    ],
)
def test_every_reason_is_given_with_its_numbers(
    wanted: Request, kind: str, degree: int, reason: Reason, numbers: dict[str, int | str]
) -> None:
    said = rejection(wanted, kind, degree)
    assert said.reason is reason
    assert {name: said.number(name) for name in numbers} == numbers


@pytest.mark.parametrize(("reason", "split"), CUT_REASONS.items(), ids=[each.value for each in CUT_REASONS])
def test_a_split_that_the_model_cannot_be_cut_by_is_turned_down(reason: Reason, split: Split) -> None:
    there = FLEET.of_type(H100)[0]
    said = judge(request(), candidate_on(there.gpu, split, FLEET, restricted=False), FLEET)
    assert isinstance(said, Rejection)
    assert said.reason is reason


def test_a_stage_that_would_begin_among_layers_that_share_is_turned_down() -> None:
    there, wanted = FLEET.of_type(H100)[0], request()
    joined = replace(wanted, model=replace(wanted.model, inseparable=((10, 20),)))
    said = judge(joined, candidate_on(there.gpu, Split(1, 2), FLEET, restricted=False), FLEET)
    assert isinstance(said, Rejection)
    assert said.reason is Reason.STAGES_CUT_SHARED_LAYERS
    assert dict(said.numbers) == {"stages": 2, "first": 10, "last": 19}


def test_a_price_limit_turns_down_what_has_no_price() -> None:
    where = fleet(node("h100", gpu(H100, price=None)))
    said = rejection(request(constraints=GpuConstraints(max_hourly_price=Decimal(50))), where=where)
    assert (said.reason, said.number("limit")) == (Reason.PRICE_UNKNOWN, "50")


def test_the_limit_itself_may_be_paid() -> None:
    assert isinstance(verdict(request(constraints=GpuConstraints(max_hourly_price=Decimal("3.078")))), Option)


def test_the_users_wish_is_named_before_what_the_hardware_lacks_and_that_before_what_does_not_fit() -> None:
    impossible = request(LLAMA_70B, context=131_072, concurrency=64, node_selector=(("zone", "b"),))
    assert rejection(impossible, T4, 1).reason is Reason.PRECISION_NOT_SUPPORTED
    assert rejection(replace(impossible, constraints=GpuConstraints(deny=(T4,))), T4).reason is Reason.GPU_TYPE_DENIED
    assert rejection(impossible, H100).reason is Reason.NODES_NOT_SELECTED
    assert rejection(replace(impossible, node_selector=()), H100).reason is Reason.TOO_LITTLE_VRAM


def test_what_an_engine_reported_counts_for_its_type_and_split_alone_and_the_worst_report_wins() -> None:
    seen = (
        ObservedCapacity(H100, ONE, 90_000),
        ObservedCapacity(H100, ONE, 1000),
        ObservedCapacity(H100, Split(2), 90_000),
    )
    assert rejection(request(observed=seen)).number("have_tokens") == 1000
    assert isinstance(verdict(request(observed=seen), degree=2), Option)


def test_an_admins_memory_figure_outweighs_what_was_observed() -> None:
    forced = Overrides(memory_per_gpu_bytes=GIB)
    assert isinstance(verdict(request(observed=(ObservedCapacity(H100, ONE, 1),), overrides=forced)), Option)


def test_an_admins_figure_that_is_too_large_is_too_little_vram() -> None:
    said = rejection(request(overrides=Overrides(memory_per_gpu_bytes=100 * GIB)))
    assert (said.reason, said.number("need_bytes")) == (Reason.TOO_LITTLE_VRAM, 100 * GIB)


def test_weights_without_room_for_a_cache_and_a_cache_that_is_too_small_are_told_apart() -> None:
    assert rejection(request(LLAMA_70B, concurrency=1), degree=1).reason is Reason.TOO_LITTLE_VRAM
    small = rejection(request(LLAMA_70B, context=131_072, concurrency=8), degree=2)
    assert small.reason is Reason.KV_CACHE_TOO_SMALL
    assert 0 < int(small.number("have_tokens")) < int(small.number("need_tokens"))


def test_where_only_the_large_step_of_a_large_card_does_not_fit_a_smaller_one_is_taken() -> None:
    h200 = "h200-sxm-141gb"
    where = fleet(node("h200", h200))
    warm = EngineChoice(EngineVersion(0, 32), enforce_eager=True)

    def most(step: int | None) -> int:
        """The most requests of 4,096 tokens that fit with this step, counted up from one."""
        engine = replace(warm, max_batched_tokens=step)
        load = (request(LLAMA_70B, precision=Precision.FP8, concurrency=c, engine=engine) for c in count(1))
        return sum(1 for _ in takewhile(fits_for_sure, load))

    def fits_for_sure(wanted: Request) -> bool:
        said = verdict(wanted, h200, 1, where)
        return isinstance(said, Option) and said.estimate.fit is Fit.SURE

    assert most(8192) < most(2048) == most(None)
    usual = verdict(request(LLAMA_70B, precision=Precision.FP8, concurrency=most(8192), engine=warm), h200, 1, where)
    lean = verdict(request(LLAMA_70B, precision=Precision.FP8, concurrency=most(None), engine=warm), h200, 1, where)
    assert isinstance(usual, Option)
    assert isinstance(lean, Option)
    assert (usual.settings.max_num_batched_tokens, lean.settings.max_num_batched_tokens) == (8192, 2048)


GATES = [
    (LLAMA_8B, Precision.BF16, T4, "compute capability 8.0"),
    ("openai/gpt-oss-20b", Precision.MXFP4, T4, "compute capability 8.0"),
    (LLAMA_8B, Precision.NVFP4, MI300X, "an NVIDIA GPU"),
    (LLAMA_8B, Precision.FP8, "mi210-64gb", "gfx942 or gfx950"),
]


@pytest.mark.parametrize(("name", "precision", "kind", "need"), GATES)
def test_a_gpu_that_cannot_compute_in_the_precision_is_turned_down(
    name: str, precision: Precision, kind: str, need: str
) -> None:
    where = fleet(node("only", kind))
    said = rejection(request(name, precision=precision), kind, where=where)
    assert (said.reason, said.number("need")) == (Reason.PRECISION_NOT_SUPPORTED, need)


@every_case(
    ("precision", "kind"),
    [
        (Precision.FP16, T4),
        (Precision.AWQ, T4),
        (Precision.GPTQ, T4),
        (Precision.INT8, T4),
        (Precision.FP8, L4),
        (Precision.NVFP4, L4),
        (Precision.MXFP4, "a100-sxm-80gb"),
        (Precision.MXFP4, "mi355x-288gb"),
        (Precision.MXFP4, MI300X),
        (Precision.FP8, MI300X),
        (Precision.BF16, MI300X),
    ],
)
def test_a_gpu_that_can_is_not(precision: Precision, kind: str) -> None:
    where = fleet(node("only", kind))
    said = verdict(request(precision=precision, context=256, concurrency=1), kind, where=where)
    assert isinstance(said, Option) or said.reason is not Reason.PRECISION_NOT_SUPPORTED


@pytest.mark.parametrize(("kind", "refused"), [(T4, True), (L4, False), (MI300X, False), ("mi210-64gb", True)])
def test_an_fp8_cache_has_a_gate_of_its_own(kind: str, refused: bool) -> None:  # noqa: FBT001 - a table's column
    where = fleet(node("only", kind))
    wanted = request(precision=Precision.FP16, kv_precision=KvPrecision.FP8, concurrency=1)
    said = verdict(wanted, kind, where=where)
    gated = isinstance(said, Rejection) and said.reason is Reason.PRECISION_NOT_SUPPORTED
    assert gated is refused
    if isinstance(said, Rejection) and gated:
        assert said.number("what") == "kvCache.precision fp8"


SPOT = Taint("spot", "true", "NoSchedule")


@every_case(
    ("taints", "tolerations", "eligible"),
    [
        ((), (), True),
        ((Taint("nvidia.com/gpu", "present", "NoSchedule"),), (), True),
        ((Taint("amd.com/gpu", "", "NoExecute"),), (), True),
        ((Taint("spot", "true", "PreferNoSchedule"),), (), True),
        ((SPOT,), (), False),
        ((Taint("spot", "true", "NoExecute"),), (), False),
        ((SPOT,), (Toleration("spot", "Equal", "true", "NoSchedule"),), True),
        ((SPOT,), (Toleration("spot", "Equal", "false"),), False),
        ((SPOT,), (Toleration("spot", "Exists"),), True),
        ((SPOT,), (Toleration("spot", "Exists", effect="NoExecute"),), False),
        ((SPOT,), (Toleration("", "Exists"),), True),
        ((SPOT,), (Toleration("", "Equal"),), False),
        ((SPOT, Taint("team", "b", "NoSchedule")), (Toleration("spot", "Exists"),), False),
    ],
)
def test_nodes_whose_taints_the_pods_do_not_tolerate_do_not_count(
    taints: tuple[Taint, ...],
    tolerations: tuple[Toleration, ...],
    eligible: bool,  # noqa: FBT001 - a table's column
) -> None:
    where = fleet(node("h100", H100, taints=taints))
    assert isinstance(verdict(request(tolerations=tolerations), where=where), Option) is eligible


def test_a_node_selector_needs_every_label_with_its_value() -> None:
    where = fleet(node("a", H100, labels={"zone": "a", "disk": "ssd"}), node("b", H100, 1, labels={"zone": "b"}))
    assert isinstance(verdict(request(node_selector=(("disk", "ssd"), ("zone", "a"))), degree=8, where=where), Option)
    only_b = rejection(request(node_selector=(("zone", "b"),)), degree=2, where=where)
    assert (only_b.reason, only_b.number("largest")) == (Reason.NODE_TOO_SMALL, 1)
    assert rejection(request(node_selector=(("zone", ""),)), where=where).reason is Reason.NODES_NOT_SELECTED


def test_the_older_law_is_taken_for_an_older_engine() -> None:
    many = request(concurrency=1024, context=256)
    new = verdict(many, L4, where=fleet(node("l4", L4)))
    old = verdict(replace(many, engine=EngineChoice(EngineVersion(0, 11))), L4, where=fleet(node("l4", L4)))
    assert new.__class__ is old.__class__ is Rejection
    assert isinstance(new, Rejection)
    assert isinstance(old, Rejection)
    assert int(old.number("need_bytes")) > int(new.number("need_bytes"))


def test_every_reason_can_be_met_in_a_placement() -> None:
    """The reasons that only a whole placement or a plan gives are met in their own tests."""
    elsewhere = {
        Reason.TOO_FEW_STATES,
        Reason.GPUS_TAKEN,
        Reason.COSTS_MORE,
        Reason.NARROW_CACHE_SAVES_LITTLE,
        Reason.ROOM_FOR_FEWER,
        Reason.SCARCE_FOR_OTHERS,
        Reason.TOO_SLOW,
        Reason.CAPACITY_TYPE_DENIED,
        Reason.PROMISE_NOT_SURE,
        Reason.SPEED_NOT_MEASURED,
        Reason.SPOT_NOT_ASKED,
        Reason.TOO_MANY_ON_SPOT,
        Reason.SLOWER_FOR_ITS_PRICE,
        Reason.PLACEMENT_KEPT,
        Reason.KEPT_TO_AVOID_MOVE,
        Reason.HOST_MEMORY_TOO_SMALL,
        Reason.LIMIT_RANGE_EXCEEDED,
        Reason.FITS_ONLY_PROBABLY,
        Reason.STAGES_CUT_SHARED_LAYERS,
        Reason.STAGES_NOT_SUPPORTED,
        Reason.DATA_PARALLEL_NOT_SUPPORTED,
        Reason.TOWER_NOT_DIVISIBLE,
        *MAY_PASS,
        *CUT_REASONS,
    }
    here = {
        row.arguments["reason"]
        for row in test_every_reason_is_given_with_its_numbers.rows  # type: ignore[attr-defined]
    }
    assert here | elsewhere | {Reason.PRICE_UNKNOWN} == set(Reason)


def test_l40s_is_the_cheapest_home_of_a_small_8b_among_the_three() -> None:
    where = fleet(node("h100", H100), node("l40s", L40S, 4), node("t4", T4))
    assert placed(request(), where).choice.gpu.name == L40S


def test_nothing_at_all_is_unplaceable_without_rejections() -> None:
    assert refusals(unplaceable(request(), fleet())) == {}
