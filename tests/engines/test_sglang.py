"""SGLang as an engine: its flags, its command line, its texts, and what is refused for it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.adapters.prometheus.engine_series import Series, pod_signals
from plimsoll.adapters.prometheus.pod_scrape import read_page
from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.decisions.outcomes import Fit, Option, Split, Target
from plimsoll.domain.engines.engine_choice import DraftMethod, Speculation
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.failures import read_failure
from plimsoll.engines.flags import owned_flag
from plimsoll.engines.registry import ENGINES, engine_of
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.sglang.metrics import METRICS, STREAMING_LABEL
from plimsoll.placement.options.speed import speed_of
from plimsoll.rebalance.signals.metrics import Buckets
from tests.api.manifests import deployment
from tests.support.planning import LLAMA_8B, gpu, model

OPTIONS: list[str] = json.loads((Path(__file__).parent / "data" / "sglang_options.json").read_text())["options"]
EXAMPLE = Path(__file__).parents[2] / "examples" / "14-sglang" / "expected" / "objects.yaml"
OWN: dict[str, Any] = {"name": "sglang", "version": "0.5.23"}


def container() -> dict[str, Any]:
    objects = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    made = next(each for each in objects if each["kind"] == "Deployment")
    found: dict[str, Any] = made["spec"]["template"]["spec"]["containers"][0]
    return found


def accepted(word: str) -> list[str]:
    """The options that ``argparse`` may take a word for: one is accepted, several are an error."""
    return [word] if word in OPTIONS else [each for each in OPTIONS if each.startswith(word)]


def test_every_flag_of_a_rendered_command_is_an_option_and_its_operators_own() -> None:
    words = container()["args"]
    flags = [word for word in words if word.startswith("--")]
    assert len(flags) >= 12
    assert len(set(flags)) == len(flags)
    for flag in flags:
        assert flag in OPTIONS
        assert owned_flag(flag, SGLANG.owned_flags) is not None


def test_every_spelling_of_an_owned_flag_is_refused_and_no_other_option_is() -> None:
    owned = {each for each in OPTIONS if owned_flag(each, SGLANG.owned_flags) is not None}
    assert {"--mem-fraction-static", "--tensor-parallel-size", "--model", "--ep", "--config"} <= owned
    assert {"--attention-backend", "--tool-call-parser", "--schedule-policy", "--tokenizer-path"} <= {*OPTIONS} - owned
    for option in OPTIONS:
        for length in range(3, len(option) + 1):
            word = option[:length]
            taken_for = accepted(word)
            if len({owned_flag(each, SGLANG.owned_flags) or each for each in taken_for}) > 1:
                continue  # the engine refuses it: more than one option begins so
            is_refused = owned_flag(word, SGLANG.owned_flags) is not None
            assert is_refused == (taken_for[0] in owned), word
            assert is_refused == (owned_flag(f"{word}=1", SGLANG.owned_flags) is not None)


def test_a_replica_runs_with_its_share_and_probes_that_wait_for_a_token() -> None:
    run = container()
    given = dict(zip(run["args"][::2], run["args"][1::2], strict=False))
    assert run["image"] == "lmsysorg/sglang:v0.5.23"
    assert run["command"] == ["sglang", "serve"]
    assert len(given["--mem-fraction-static"].partition(".")[2]) == 3
    assert 0 < float(given["--swa-full-tokens-ratio"]) < 0.8
    assert given["--host"] == "0.0.0.0"  # noqa: S104 - the pod's own network
    assert "--enable-metrics" in run["args"]
    assert run["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert run["livenessProbe"]["httpGet"]["path"] == "/health"
    assert run["livenessProbe"]["timeoutSeconds"] > 20
    assert not [each["name"] for each in run["env"] if "VLLM" in each["name"]]


@pytest.mark.parametrize(
    ("engine", "field", "fix"),
    [
        ({"extraArgs": ["--mem-fraction-static", "0.9"]}, "spec.engine.extraArgs[0]", "gpuMemoryUtilizationPercent"),
        ({"extraArgs": ["--mem=0.9"]}, "spec.engine.extraArgs[0]", "gpuMemoryUtilizationPercent"),
        ({"extraArgs": ["--tp", "2"]}, "spec.engine.extraArgs[0]", "tensorParallel"),
        (
            {"weightStreaming": {"group": 4}},
            "spec.engine.weightStreaming",
            "It is not supported with SGLang: remove the field, or set spec.engine.name to vllm",
        ),
        (
            {"textOnly": True},
            "spec.engine.textOnly",
            "It is not supported with SGLang: remove the field, or set spec.engine.name to vllm",
        ),
        ({"lora": {"maxRank": 16}}, "spec.engine.lora", "gets no adapters; remove it"),
        (
            {"speculation": {"method": "Ngram", "tokens": 3}},
            "spec.engine.speculation.method",
            "SGLang has Mtp, Eagle, Draft: ",
        ),
        ({"version": "0.5.3"}, "spec.engine.version", "Use 0.5.14 or newer"),
    ],
)
def test_what_this_engine_does_not_get_is_refused_with_field_and_fix(
    engine: dict[str, Any], field: str, fix: str
) -> None:
    with pytest.raises(InvalidInput, match=fix) as refused:
        check_without_model(deployment(engine=OWN | engine).spec)
    assert refused.value.field == field
    check_without_model(deployment(engine=OWN).spec)
    check_without_model(deployment(engine=OWN | {"extraArgs": ["--attention-backend", "triton"]}).spec)


@pytest.mark.parametrize(
    ("speculation", "draft", "words"),
    [
        (Speculation(2, uses_predictor=True), None, ("NEXTN", "2", "1", "3")),
        (Speculation(4, head=DraftMethod.EAGLE3), "owner/head", ("EAGLE3", "4", "1", "5", "owner/head", "abc")),
        (Speculation(3), "owner/small", ("STANDALONE", "3", "1", "4", "owner/small", "abc")),
    ],
    ids=["the model's own layers", "a head", "a small model"],
)
def test_speculation_is_a_chain_of_guesses_and_the_token_before_them(
    speculation: Speculation, draft: str | None, words: tuple[str, ...]
) -> None:
    resource, wanted = deployment(engine=OWN), to_request(deployment(engine=OWN), model(LLAMA_8B))
    guesses = replace(speculation, draft=None if draft is None else model(LLAMA_8B))
    wanted = replace(wanted, engine=replace(wanted.engine, speculation=guesses))
    card = gpu("h100-sxm-80gb")
    settings = SGLANG.settings(wanted, card, Split(1))
    target = Target(card.name, Split(1), ("", ""), "nvidia.com/gpu")
    choice = Option(card, target, settings, SGLANG.estimate(wanted, card, Split(1), settings))
    options = replace(
        to_workload_options(resource), draft_source=draft, draft_revision=None if draft is None else "abc"
    )
    arguments = SGLANG.launch(options, choice).arguments
    flags = [flag for flag in arguments if flag.startswith("--speculative-")]
    assert tuple(arguments[arguments.index(flag) + 1] for flag in flags) == words
    assert set(flags) <= set(OPTIONS)
    assert all(owned_flag(flag, SGLANG.owned_flags) is not None for flag in flags)


@pytest.mark.parametrize(
    ("spec", "field", "fix"),
    [
        ({"engine": OWN | {"cpuOffload": "8Gi"}}, "spec.engine.cpuOffload", "remove it"),
        ({"engine": OWN | {"version": "0.32.0"}}, "spec.engine.version", "write 0.5.14 to 0.5.23"),
        ({"engine": OWN, "kvCache": {"precision": "fp16"}}, "spec.kvCache.precision", "write auto"),
        ({"engine": OWN, "contextLength": 131_073}, "spec.contextLength", "write at most 131072"),
    ],
)
def test_what_the_model_does_not_go_with_is_refused_too(spec: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(InvalidInput, match=fix) as refused:
        to_request(deployment(**spec), model(LLAMA_8B))
    assert refused.value.field == field
    assert to_request(deployment(engine=OWN), model(LLAMA_8B)).engine.name == "sglang"


def test_a_class_that_only_the_other_engine_has_is_refused_by_name_unless_the_image_is_the_users() -> None:
    falcon = model("tiiuae/falcon-40b")
    with pytest.raises(InvalidInput, match="has no FalconForCausalLM of its own") as refused:
        to_request(deployment(engine=OWN, contextLength=2048), falcon)
    assert refused.value.field == "spec.engine.version"
    own = OWN | {"image": "registry.example/sglang:mine", "version": "0.5.23"}
    assert to_request(deployment(engine=own, contextLength=2048), falcon).model.architecture == "FalconForCausalLM"
    assert to_request(deployment(engine={"name": "vllm"}, contextLength=2048), falcon).engine.name == "vllm"


@pytest.mark.parametrize(
    "permission",
    [
        {"podTemplate": {"env": [{"name": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "value": "1"}]}},
        {"engine": OWN | {"extraArgs": ["--json-model-override-args={}"]}},
    ],
    ids=["variable", "flag"],
)
def test_a_longer_context_is_taken_where_the_user_permits_it_or_changes_the_positions(
    permission: dict[str, Any],
) -> None:
    spec: dict[str, Any] = {"engine": OWN, "contextLength": 131_073} | permission
    wanted = deployment(**spec)
    assert to_request(wanted, model(LLAMA_8B)).shape.context_tokens == 131_073


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "RuntimeError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.300",
            StartFailure.NO_KV_CACHE,
        ),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", StartFailure.NO_KV_CACHE),
        ("Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB", StartFailure.OUT_OF_MEMORY),
        (
            "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests.",
            StartFailure.MAMBA_BLOCKS,
        ),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            StartFailure.MEMORY_HELD_BY_OTHERS,
        ),
        (
            (
                "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
                "max_mamba_cache_size=0 (total_rest_memory=0.31 GB, mamba_cache_per_req=147.50 MB). Try: (1) reduce "
                "--max-running-requests, (2) increase --mem-fraction-static, (3) reduce --speculative-num-draft-tokens"
            ),
            StartFailure.MAMBA_BLOCKS,
        ),
        (
            "max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.",
            StartFailure.NO_KV_CACHE,
        ),
        (
            (
                "ValueError: SWA pool (1536 tokens) cannot hold even one request: the prefill admission floor is "
                "sliding_window_size (2047) + page_size (1). Increase --swa-full-tokens-ratio or the total KV budget."
            ),
            StartFailure.KV_CACHE_TOO_SMALL,
        ),
        ("AssertionError: 40 is not divisible by 3", StartFailure.HEADS_NOT_DIVISIBLE),
        ("ValueError: tp_size 8 must be divisible by ep_size 3", StartFailure.HEADS_NOT_DIVISIBLE),
        (
            (
                "Exception: Capture cuda graph failed: HIP out of memory. Tried to allocate 672.00 MiB. GPU 0 has a "
                "total capacity of 191.98 GiB of which 200.75 MiB is free"
            ),
            StartFailure.OUT_OF_MEMORY,
        ),
        (
            "RuntimeError: Prefill out of memory. Try to lower your batch size.\nTry to allocate 512 tokens.",
            StartFailure.OUT_OF_MEMORY,
        ),
        ("Rank 0 scheduler died during initialization (exit code: -9)", StartFailure.HOST_MEMORY),
        ("sglang serve: error: unrecognized arguments: --nonsense", StartFailure.OPTIONS_REFUSED),
    ],
)
def test_a_crash_is_read_in_the_engines_words_whatever_the_container_says(line: str, reason: StartFailure) -> None:
    """The engine ends its own processes with 137 and the reason ``Error``."""
    assert (
        read_failure(f"[2026-10-01 10:00:00 TP0] Scheduler hit an exception\n{line}\nKilled\n", "Error").reason
        is reason
    )


def test_a_cap_above_what_there_was_room_for_is_no_failure() -> None:
    line = "max_total_tokens=131072 is larger than the profiled value 97503. Use the profiled value instead."
    assert SGLANG.find_failure(line) is None


def test_the_engines_metrics_are_its_own() -> None:
    assert all(name.startswith("sglang:") for name in METRICS.names)
    assert METRICS.capacity_tokens({}, 405_725.0) == 405_725
    assert METRICS.capacity_tokens({}, 0.0) is None
    assert "is_streaming" in METRICS.labels
    assert not {*METRICS.names} & {*ENGINES["vllm"].metrics.names}


def test_images_are_known_by_release() -> None:
    assert SGLANG.image(Vendor.NVIDIA, "0.5.20") == "lmsysorg/sglang:v0.5.20"
    rocm = "lmsysorg/sglang-rocm:v0.5.20-rocm724"
    assert SGLANG.image(Vendor.AMD, "0.5.20", "gfx942") == f"{rocm}-mi30x-20260919"
    assert SGLANG.image(Vendor.AMD, "0.5.20", "gfx950") == f"{rocm}-mi35x-20260920"


@pytest.mark.parametrize(
    ("card", "release", "lacks"),
    [
        ("mi300x-192gb", "0.5.20", ""),
        ("mi325x-256gb", "0.5.18", ""),
        ("mi355x-288gb", "0.5.21", ""),
        (
            "mi300x-192gb",
            "0.5.23",
            "0.5.14 or 0.5.16 or 0.5.18 or 0.5.20, or an image for gfx942 in",
        ),
        ("mi300x-192gb", "0.5.19", "spec.engine.version 0.5.14 or 0.5.16"),
        ("mi210-64gb", "0.5.20", "an image for gfx90a in spec.engine.image"),
        ("rx-7900-xtx-24gb", "0.5.20", "an image for gfx1100 in spec.engine.image"),
    ],
)
def test_amds_cards_are_places_where_an_image_for_their_target_is_known(card: str, release: str, lacks: str) -> None:
    asked = to_request(deployment(engine={**OWN, "version": release}), model(LLAMA_8B))
    found = dict(SGLANG.missing_capability(asked, gpu(card)))
    assert (lacks in str(found["need"])) if lacks else (found == {})
    named = {**OWN, "version": release, "image": "registry.example/sglang-rocm:own", "imageVendor": "AMD"}
    own = to_request(deployment(engine=named), model(LLAMA_8B))
    assert SGLANG.missing_capability(own, gpu(card)) == ()


def test_a_card_of_amd_without_a_measured_start_is_never_sure() -> None:
    asked = to_request(deployment(engine={**OWN, "version": "0.5.20"}), model(LLAMA_8B))
    for card in ("mi300x-192gb", "mi325x-256gb", "mi355x-288gb"):
        settings = SGLANG.settings(asked, gpu(card), Split(1))
        assert SGLANG.estimate(asked, gpu(card), Split(1), settings).fit is Fit.PROBABLE


def test_no_predicted_time_is_called_validated_without_rows_of_this_engine() -> None:
    asked = to_request(deployment(engine=OWN), model(LLAMA_8B))
    card, split = gpu("h100-sxm-80gb"), Split(1)
    found = speed_of(asked, card, split, SGLANG.settings(asked, card, split))
    assert found is not None
    assert not found.validated
    usual = to_request(deployment(), model(LLAMA_8B))
    same = speed_of(usual, card, split, engine_of("vllm").settings(usual, card, split))
    assert same is not None
    assert same.validated


PAGE = """
sglang:token_usage{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.25
sglang:num_running_reqs{engine_type="unified",model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 2.0
sglang:prompt_tokens_total{engine_type="unified",is_streaming="false",model_name="m"} 3.0
sglang:prompt_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 18.0
sglang:cached_tokens_total{cache_source="device",engine_type="unified",model_name="m"} 10.0
sglang:cached_tokens_total{cache_source="host",engine_type="unified",model_name="m"} 4.0
sglang:time_to_first_token_seconds_count{engine_type="unified",is_streaming="false",model_name="m"} 1.0
sglang:time_to_first_token_seconds_count{engine_type="unified",is_streaming="true",model_name="m"} 3.0
sglang:time_to_first_token_seconds_bucket{engine_type="unified",is_streaming="false",le="0.1",model_name="m"} 0.0
sglang:time_to_first_token_seconds_bucket{engine_type="unified",is_streaming="false",le="+Inf",model_name="m"} 1.0
sglang:time_to_first_token_seconds_bucket{engine_type="unified",is_streaming="true",le="0.1",model_name="m"} 2.0
sglang:time_to_first_token_seconds_bucket{engine_type="unified",is_streaming="true",le="+Inf",model_name="m"} 3.0
sglang:generation_tokens_histogram_sum{engine_type="unified",model_name="m"} 32.0
sglang:generation_tokens_histogram_count{engine_type="unified",model_name="m"} 4.0
"""


def test_a_figure_that_the_engine_divides_is_the_sum_of_its_series() -> None:
    (found,) = pod_signals("pod", read_page(PAGE, 60.0, METRICS, buckets=True), METRICS).samples
    assert (found.kv_usage, found.running) == (0.25, 2)
    assert (found.prompt_tokens_total, found.prefix_queried_tokens_total, found.prefix_hit_tokens_total) == (21, 21, 14)
    assert (found.first_tokens_total, found.finished_total, found.finished_output_tokens_total) == (4, 4, 32)
    assert found.first_token_buckets == Buckets((0.1, math.inf), (2, 4))


@given(st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=5), min_size=1, max_size=3), st.data())
def test_a_part_counts_from_its_first_sample_and_a_scrape_without_it_says_nothing(
    parts: list[list[int]], data: st.DataObject
) -> None:
    """``parts`` are the increases of each part. Each begins at some scrape, and may be missing at later ones."""
    begins = [data.draw(st.integers(0, 3)) for _ in parts]
    gaps = [data.draw(st.sets(st.integers(begin + 1, 9))) for begin in begins]
    values = [
        {float(at): float(sum(steps[: at - begin + 1])) for at in range(begin, 10) if at not in gap}
        for steps, begin, gap in zip(parts, begins, gaps, strict=True)
    ]
    usage = Series({"__name__": METRICS.kv_usage}, {float(at): 0.5 for at in range(10)}, METRICS.kv_usage, "")
    counters = [
        Series({STREAMING_LABEL: str(number)}, points, METRICS.prompt_tokens, "", (str(number), ""))
        for number, points in enumerate(values)
    ]
    found = {each.at: each.prompt_tokens_total for each in pod_signals("pod", [usage, *counters], METRICS).samples}
    for at in range(10):
        begun = [points for points, begin in zip(values, begins, strict=True) if begin <= at]
        whole = begun and all(at in points for points in begun)
        assert found[at] == (sum(points[at] for points in begun) if whole else None)
