"""SGLang as an engine: its flags, its command line, its texts, and what is refused for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.failures import read_failure
from plimsoll.engines.flags import owned_flag
from plimsoll.engines.registry import ENGINES, engine_of
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.engines.sglang.metrics import METRICS
from plimsoll.placement.options.speed import speed_of
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
        ({"weightStreaming": {"group": 4}}, "spec.engine.weightStreaming", "SGLang cannot; remove it"),
        ({"textOnly": True}, "spec.engine.textOnly", "SGLang cannot; remove it"),
        ({"lora": {"maxRank": 16}}, "spec.engine.lora", "gets no adapters; remove it"),
        ({"speculation": {"method": "Ngram", "tokens": 3}}, "spec.engine.speculation.method", "SGLang cannot"),
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
    ("spec", "field", "fix"),
    [
        ({"engine": OWN | {"cpuOffload": "8Gi"}}, "spec.engine.cpuOffload", "remove it"),
        ({"engine": OWN | {"version": "0.32.0"}}, "spec.engine.version", "write 0.5.14 to 0.5.23"),
        ({"engine": OWN, "kvCache": {"precision": "fp16"}}, "spec.kvCache.precision", "write auto"),
    ],
)
def test_what_the_model_does_not_go_with_is_refused_too(spec: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(InvalidInput, match=fix) as refused:
        to_request(deployment(**spec), model(LLAMA_8B))
    assert refused.value.field == field
    assert to_request(deployment(engine=OWN), model(LLAMA_8B)).engine.name == "sglang"


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


def test_the_engines_metrics_are_its_own() -> None:
    assert all(name.startswith("sglang:") for name in METRICS.names)
    assert METRICS.capacity_tokens({}, 405_725.0) == 405_725
    assert METRICS.capacity_tokens({}, 0.0) is None
    assert "is_streaming" in METRICS.labels
    assert not {*METRICS.names} & {*ENGINES["vllm"].metrics.names}


def test_images_are_known_by_release() -> None:
    assert SGLANG.image(Vendor.NVIDIA, "0.5.20") == "lmsysorg/sglang:v0.5.20"


def test_no_predicted_time_is_called_validated_before_rows_of_this_engine_are_behind_it() -> None:
    asked = to_request(deployment(engine=OWN), model(LLAMA_8B))
    card, split = gpu("h100-sxm-80gb"), Split(1)
    found = speed_of(asked, card, split, SGLANG.settings(asked, card, split))
    assert found is not None
    assert not found.validated
    usual = to_request(deployment(), model(LLAMA_8B))
    same = speed_of(usual, card, split, engine_of("vllm").settings(usual, card, split))
    assert same is not None
    assert same.validated
