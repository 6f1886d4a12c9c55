"""A pod that the operator renders, asked about as anybody's: the estimate is that of the plan that made it."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.types import answers
from plimsoll.cli.starts.command_files import pod_containers, written
from plimsoll.cli.starts.start_question import start_question
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Option, Split, Target
from plimsoll.domain.errors import InvalidInput, UnsupportedModel
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.options.sizing import Sized, size_on
from plimsoll.render.pods import pod_template
from tests.api.manifests import deployment
from tests.support.planning import gpu, model
from tests.support.tables import examples

MODELS = (
    "Qwen/Qwen3-VL-8B-Instruct",
    "Qwen/Qwen3-Embedding-0.6B",
    "XiaomiMiMo/MiMo-7B-Base",
    "Qwen/Qwen3-8B",
    "meta-llama/Llama-3.1-8B-Instruct",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/gemma-4-26B-A4B",
)
GPUS = ("h100-sxm-80gb", "l4-24gb", "a100-sxm-80gb", "b200-sxm-180gb")
SPLITS = (Split(1), Split(2), Split(4, 2), Split(2, expert_parallel=True), Split(1, 1, 4, expert_parallel=True))
ENGINES: dict[str, list[dict[str, Any]]] = {
    "load": [{}, {"maxSequences": 96}, {"maxBatchedTokens": 4096}],
    "share": [{}, {"gpuMemoryUtilizationPercent": 87}],
    "kind": [
        {},
        {"enforceEager": True},
        {"textOnly": True},
        {"cpuOffload": "3Gi"},
        {"weightStreaming": {"group": 4}},
        {"lora": {"maxAdapters": 3, "maxRank": 32}},
        {"speculation": {"method": "Ngram", "tokens": 3}},
        {"speculation": {"method": "Mtp", "tokens": 2}},
        {"multimodal": {"encoderParallelism": "Data", "imagesPerPrompt": 2, "videosPerPrompt": 0}},
    ],
    "release": [{}, {"version": "0.29.0"}, {"version": "0.24.0"}],
    "arguments": [
        {},
        *(
            {"extraArgs": words.split()}
            for words in (
                "--no-enable-prefix-caching",
                "--enable-prefix-caching --no-async-scheduling",
                "--block-size=64",
                "--attention-backend TRITON_ATTN",
                "--config-format mistral",
                "--trust-remote-code --hf-overrides {}",
                "--no-enable-chunked-prefill",
                "--moe-backend=triton --seed=3",
            )
        ),
    ],
}
VARIABLES: tuple[list[dict[str, str]], ...] = (
    [],
    [{"name": "NCCL_CUMEM_ENABLE", "value": "1"}],
    [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}],
)
SPECS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS).map(lambda name: {"name": name}),
        "contextLength": st.sampled_from([2048, 8192]),
        "concurrency": st.integers(1, 64),
        "precision": st.sampled_from(["auto", "auto", "fp8", "fp16"]),
        "kvCache": st.sampled_from(["auto", "fp8", "int8", "turboquant_k8v4", "fp8_per_token_head"]).map(
            lambda word: {"precision": word}
        ),
        "engine": st.tuples(*(st.sampled_from(rows) for rows in ENGINES.values())).map(
            lambda parts: {key: value for part in parts for key, value in part.items()}
        ),
        "podTemplate": st.sampled_from(VARIABLES).map(lambda env: {"env": env}),
    }
)


def request_of(spec: dict[str, Any]) -> Request:
    """The planner's request for a spec."""
    return to_request(deployment(**spec), model(spec["model"]["name"]))


def planned(spec: dict[str, Any], kind: str, split: Split) -> tuple[Sized, dict[str, Any]] | None:
    """The answer of the plan, and the Deployment with the pod that is rendered for it; None where there is none."""
    try:
        resource = deployment(**spec)
        sized = size_on(request_of(spec), gpu(kind), split)
    except (InvalidInput, UnsupportedModel):
        return None
    if not isinstance(sized, Sized):
        return None
    target = Target(kind, split, ("nvidia.com/gpu.product", gpu(kind).product_labels[0]), "nvidia.com/gpu")
    option = Option(sized.gpu, target, sized.settings, sized.figures)
    template = pod_template(to_workload_options(resource), "pool", option)
    return sized, {"kind": "Deployment", "metadata": {"name": "llama"}, "spec": {"template": template}}


def asked_again(document: dict[str, Any], concurrency: int) -> tuple[EstimateQuestion, Sized]:
    """The question and the answer of the pod alone, for as many requests as the plan counts."""
    (container,) = pod_containers(yaml.safe_load(yaml.safe_dump(document)))
    command = written(container, "pod.yaml")
    assert command is not None
    about = start_question(command, TypedOptions(concurrency=concurrency), None)
    (answer,) = answers(about.request, about.gpus, about.split, about.share)
    assert isinstance(answer, Sized)
    return about, answer


def figures(estimate: MemoryEstimate) -> tuple[object, ...]:
    """Everything that an estimate counts."""
    terms = tuple((term.name.key, term.size_bytes) for term in estimate.terms)
    tokens = (estimate.kv_needed_tokens, estimate.kv_capacity_tokens, estimate.kv_capacity_low_tokens)
    edges = (estimate.margin_bytes, estimate.slack_bytes, estimate.budget_bytes, estimate.outside_bytes)
    return terms, tokens, edges, estimate.host_bytes, estimate.max_sequences, estimate.doubts, estimate.fit


@settings(max_examples=examples(120), deadline=None)
@given(SPECS, st.sampled_from(GPUS), st.sampled_from(SPLITS))
def test_the_estimate_of_a_rendered_pod_is_that_of_the_plan(spec: dict[str, Any], kind: str, split: Split) -> None:
    plan = planned(spec, kind, split)
    assume(plan is not None)
    assert plan is not None
    sized, document = plan
    about, again = asked_again(document, spec["concurrency"])
    assert (again.gpu.name, again.split, again.settings) == (kind, split, sized.settings)
    assert figures(again.figures) == figures(sized.figures)
    assert about.request.engine.unfollowed == request_of(spec).engine.unfollowed


def test_every_kind_of_options_is_read_of_a_pod() -> None:
    """The draws above may refuse much: here each kind of options has a model with it, and the pod its figures."""
    for part in (*ENGINES["kind"], *ENGINES["arguments"]):
        specs = ({"model": {"name": name}, "contextLength": 4096, "concurrency": 8, "engine": part} for name in MODELS)
        plan = next(found for spec in specs if (found := planned(spec, "b200-sxm-180gb", Split(1))) is not None)
        assert figures(asked_again(plan[1], 8)[1].figures) == figures(plan[0].figures), part


def test_a_flag_that_no_law_covers_makes_the_pod_doubtful_and_its_neighbour_stays_sure() -> None:
    spec = {"model": {"name": MODELS[0]}, "contextLength": 4096, "concurrency": 8}
    doubtful = planned({**spec, "engine": {"extraArgs": ["--moe-backend=triton"]}}, GPUS[0], Split(1))
    sure = planned({**spec, "engine": {"extraArgs": ["--seed=32"]}}, GPUS[0], Split(1))
    assert doubtful is not None
    assert sure is not None
    about, answer = asked_again(doubtful[1], 8)
    assert about.request.engine.unfollowed == ("--moe-backend=triton",)
    for each in (answer.figures, doubtful[0].figures):
        assert (each.fit.value, [doubt.kind.value for doubt in each.doubts]) == ("Probable", ["UnfollowedOptions"])
    assert asked_again(sure[1], 8)[1].figures.fit.value == "Sure"


def test_the_nodes_of_a_rendered_pod_say_its_gpu_type() -> None:
    spec = {"model": {"name": MODELS[0]}, "contextLength": 4096, "concurrency": 8}
    for kind in (each.name for each in load_gpu_types() if each.product_labels and not each.is_slice):
        plan = planned(spec, kind, Split(1))
        if plan is not None and kind.startswith(("h", "l", "a", "b")):
            assert kind in asked_again(plan[1], 8)[0].gpus
