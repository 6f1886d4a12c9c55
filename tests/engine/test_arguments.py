"""Does the engine's own parser take what the operator renders, and mean the same by it?"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_workload_options
from plimsoll.cli.planning import Planned
from plimsoll.domain.engines.engine_choice import DraftMethod
from plimsoll.domain.requests.workload import ENGINE_PORT
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm import launch as arguments
from testbed.engine.arguments import Accepted, ParserAnswer, Refused
from tests.engine.questions import MODEL, parse
from tests.engine.recording import Recording
from tests.support.rendered import choice_of, planned_examples, rendered_examples

PLANNED = planned_examples()
RENDERED = rendered_examples()

NEVER_PLANNED = {"--pipeline-parallel-size"}
"""Flags that the renderer knows and no plan asks for: replicas are cut by tensor parallelism alone."""

WRONG = {
    "an option that does not exist": ([MODEL, "--max-num-sequences", "3"], "unrecognized arguments"),
    "an option that was removed": ([MODEL, "--swap-space", "4"], "unrecognized arguments"),
    "a word for a number": ([MODEL, "--tensor-parallel-size", "two"], "invalid int value: 'two'"),
    "a KV-cache type that does not exist": ([MODEL, "--kv-cache-dtype", "fp9"], "invalid choice: 'fp9'"),
    "two models": ([MODEL, "--model", "other/model"], "unrecognized arguments"),
    "a name and no model": (["--served-model-name", "x"], "first positional argument"),
    "tool choice without a parser": ([MODEL, "--enable-auto-tool-choice"], "requires --tool-call-parser"),
    "a call for help": ([MODEL, "--help"], "printed help"),
}


def _adapters(planned: Planned) -> tuple[int, int]:
    """Slots and their rank; the engine's defaults where none are asked for."""
    lora = planned.resource.spec.engine.lora
    return (1, 16) if lora is None else (lora.max_adapters, lora.max_rank)


def _streamed(planned: Planned) -> tuple[int, int]:
    """Layers of a group, and how many of them stay in host memory; the engine's defaults where none do."""
    streaming = planned.resource.spec.engine.weight_streaming
    return (0, 1) if streaming is None else (streaming.group, streaming.layers)


def _speculation(planned: Planned) -> dict[str, Any] | None:
    """What the engine is meant to read of speculative decoding."""
    speculation, drafting = planned.resource.spec.engine.speculation, choice_of(planned).settings.drafting
    if speculation is None:
        return None
    assert drafting is not None
    told: dict[str, Any] = {"method": drafting.method.value, "num_speculative_tokens": speculation.tokens}
    draft = speculation.draft_model
    if draft is not None:
        told |= {"model": draft.name} | ({} if draft.revision is None else {"revision": draft.revision})
    return told


def _media_limits(planned: Planned) -> Mapping[str, int]:
    wanted = planned.resource.spec.engine.multimodal
    told = {} if wanted is None else {"image": wanted.images_per_prompt, "video": wanted.videos_per_prompt}
    return {modality: most for modality, most in told.items() if most is not None}


MEANT: dict[str, Callable[[Planned], Any]] = {
    "model": lambda planned: to_workload_options(planned.resource).model_source,
    "served_model_name": lambda planned: [planned.resource.metadata.name],
    "revision": lambda planned: planned.resource.spec.model.revision,
    "max_model_len": lambda planned: choice_of(planned).settings.max_model_len,
    "max_num_seqs": lambda planned: choice_of(planned).settings.max_num_seqs,
    "max_num_batched_tokens": lambda planned: choice_of(planned).settings.max_num_batched_tokens,
    "gpu_memory_utilization": lambda planned: choice_of(planned).settings.gpu_memory_utilization_percent / 100,
    "tensor_parallel_size": lambda planned: choice_of(planned).split.tensor_parallel,
    "data_parallel_size": lambda planned: choice_of(planned).split.data_parallel,
    "pipeline_parallel_size": lambda planned: choice_of(planned).split.pipeline_parallel,
    "enable_expert_parallel": lambda planned: choice_of(planned).split.expert_parallel,
    "dtype": lambda planned: choice_of(planned).settings.dtype,
    "kv_cache_dtype": lambda planned: choice_of(planned).settings.kv_cache_dtype,
    "quantization": lambda planned: choice_of(planned).settings.quantization,
    "runner": lambda planned: choice_of(planned).settings.runner or "auto",
    "enable_lora": lambda planned: True if planned.resource.spec.engine.lora else None,
    "max_loras": lambda planned: _adapters(planned)[0],
    "max_lora_rank": lambda planned: _adapters(planned)[1],
    "language_model_only": lambda planned: planned.resource.spec.engine.text_only,
    "mm_encoder_tp_mode": lambda planned: "data" if choice_of(planned).settings.media.copies_encoder else "weights",
    "limit_mm_per_prompt": _media_limits,
    "cpu_offload_gb": lambda planned: 4.0 if planned.resource.spec.engine.cpu_offload == "4Gi" else 0,
    "offload_group_size": lambda planned: _streamed(planned)[0],
    "offload_num_in_group": lambda planned: _streamed(planned)[1],
    "kv_offloading_size": lambda planned: (choice_of(planned).settings.host_cache_bytes / GIB) or None,
    "kv_offloading_backend": lambda _: "native",
    "speculative_config": _speculation,
    # The parser knows no False here: what is not said is left to the engine.
    "enforce_eager": lambda planned: choice_of(planned).settings.enforce_eager,
    "port": lambda _: ENGINE_PORT,
    "shutdown_timeout": lambda planned: planned.decision.pools[0].drain_seconds,
}
"""What the parser must make of every rendered argument, by its name for the option."""


@pytest.fixture(scope="module")
def answer(recording: Recording) -> ParserAnswer:
    return parse(recording, [*RENDERED.values(), *(argv for argv, _ in WRONG.values())])


@pytest.mark.parametrize("name", RENDERED)
def test_the_parser_reads_what_the_placement_says(answer: ParserAnswer, name: str) -> None:
    result = answer.results[list(RENDERED).index(name)]
    assert isinstance(result, Accepted), result
    meant = {option: meaning(PLANNED[name]) for option, meaning in MEANT.items()}
    assert {option: result.values[option] for option in MEANT} == meant


@pytest.mark.parametrize("name", RENDERED)
def test_every_rendered_option_is_written_in_full(answer: ParserAnswer, name: str) -> None:
    registered = {spelling for spellings in answer.spellings.values() for spelling in spellings}
    options = {word.partition("=")[0] for word in RENDERED[name] if word.startswith("-")}
    # An abbreviation is what the parser takes today and may find ambiguous tomorrow.
    assert options - registered == set()


def test_what_the_user_adds_is_read_as_the_user_means_it(answer: ParserAnswer) -> None:
    result = answer.results[list(RENDERED).index("flags of the user's")]
    assert isinstance(result, Accepted), result
    assert (result.values["enable_prefix_caching"], result.values["seed"]) == (True, 7)


def test_every_flag_that_can_be_rendered_is_among_the_rendered() -> None:
    known = set(re.findall(r'"(--[a-z-]+)"', inspect.getsource(arguments)))
    assert "--tensor-parallel-size" in known
    assert known - {word for arguments in RENDERED.values() for word in arguments} == NEVER_PLANNED


def test_every_method_of_drafting_is_one_of_the_engine_s(recording: Recording) -> None:
    asked = [[MODEL, "--spec-method", method] for method in (*DraftMethod, "guessing")]
    *known, unknown = parse(recording, asked).results
    assert [type(result) for result in known] == [Accepted] * len(DraftMethod)
    assert isinstance(unknown, Refused)
    assert "invalid choice: 'guessing'" in unknown.error


@pytest.mark.parametrize("case", WRONG)
def test_the_parser_refuses_what_is_wrong_and_says_why(answer: ParserAnswer, case: str) -> None:
    result = answer.results[len(RENDERED) + list(WRONG).index(case)]
    assert isinstance(result, Refused), result
    assert WRONG[case][1] in result.error


def test_spellings_are_those_of_the_real_parser(answer: ParserAnswer) -> None:
    assert answer.spellings["tensor_parallel_size"] == ("--tensor-parallel-size", "-tp")
    assert "--shutdown-timeout" in answer.spellings["shutdown_timeout"]
