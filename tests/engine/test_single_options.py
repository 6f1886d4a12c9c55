"""Every option alone on a command line: what the engine refuses is refused here, or makes the answer doubtful."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.vllm.checkpoint_files import unconfirmed
from plimsoll.engines.vllm.flags.conditions import CONDITIONS, OF_WHOLE_NUMBERS
from plimsoll.engines.vllm.flags.table import Option, table_for
from plimsoll.engines.vllm.refusals import misfit
from plimsoll.engines.vllm.starts.command_line import read_command
from tests.engine.questions import start, types
from tests.engine.recording import Recording
from tests.engine.rendered_starts import card_of, published
from tests.engine.test_flag_starts import DENSE, RELEASE, facts_of, request_of
from tests.support.planning import gpu

VISION: Final = "Qwen/Qwen3-VL-8B-Instruct"

SMALL: Final = ("--max-model-len", "512", "--max-num-batched-tokens", "2048")

NOT_ASKED: Final = {
    *(
        "--model",
        "--tokenizer",
        "--revision",
        "--code-revision",
        "--tokenizer-revision",
        "--hf-token",
        "--download-dir",
    ),
    *("--config", "--help", "--max-model-len", "--max-num-batched-tokens"),
    *("--host", "--port", "--uds", "--headless", "--nnodes", "--node-rank"),
    *("--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--middleware", "--log-config-file", "--chat-template"),
    *("--worker-cls", "--worker-extension-cls", "--scheduler-cls", "--logits-processors"),
}
"""The model and where it is, the network, other machines, and code or files of the user's own."""

VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "whole": ("-1", "0", "2"),
    "number": ("-1", "0.5"),
    "size": ("0",),
    "size-or-auto": ("1k",),
    "object": ("{}", '{"a": 1}'),
    "json": ("{}", '{"a": 1}'),
    "text-or-json": ("{}",),
}
"""Values by the kind that the parser takes; a text is ``x``."""


def lines() -> Iterator[tuple[str, ...]]:
    """Command lines with one option: a switch on and off, each choice, and values of the kind that it takes."""
    for option in sorted(set(table_for(RELEASE).options.values()), key=lambda option: option.names):
        if option.names[0] not in NOT_ASKED:
            yield from ((option.names[0], *value) for value in _values(option))
            yield from ((name,) for name in option.names if option.is_switch and name.startswith("--no-"))


def _values(option: Option) -> Iterator[tuple[str, ...]]:
    if option.is_switch:
        yield ()
    else:
        usual = VALUES.get(option.kind.removeprefix("maybe-"), ("x",))
        yield from ((value,) for value in option.choices or usual)


def is_sure(words: tuple[str, ...], name: str = DENSE) -> bool:
    """Whether nothing about the options keeps an estimate from being sure."""
    model = facts_of(name)
    try:
        command = read_command([*SMALL, *words], {}, "here", RELEASE)
        unfollowed = request_of(name, [*SMALL, *words]).engine.unfollowed
    except PlimsollError:
        return False
    doubts = (*unfollowed, *unconfirmed(model, command), *command.unchecked)
    return misfit(model, command, RELEASE) is None and not doubts


def refused(recording: Recording, asked: list[tuple[str, ...]], name: str) -> set[tuple[str, ...]]:
    """The command lines that the engine refuses for a model."""
    card = card_of(gpu("h100-sxm-80gb"))
    theirs = types(recording, [start(name, published()[name], card, [*SMALL, *words]) for words in asked])
    return {words for words, dtype in zip(asked, theirs, strict=True) if dtype is None}


def test_no_option_that_ends_a_start_leaves_it_sure(recording: Recording) -> None:
    asked = [words for words in lines() if is_sure(words) or words[0] in CONDITIONS]
    found = refused(recording, asked, DENSE)
    assert sorted(words for words in found if is_sure(words)) == []
    assert {words[0] for words in found} >= {"--watermark", "--numa-bind-nodes", "--data-parallel-rank"}
    assert len(asked) - len(found) > 400


LET_THROUGH: Final = (
    *(("--all2all-backend", each) for each in ("allgather_reducescatter", "naive")),
    ("--collect-detailed-traces", "all", "--otlp-traces-endpoint", "http://traces:4317"),
    ("--config-format", "hf"),
    ("--data-parallel-backend", "mp"),
    *(("--data-parallel-rpc-port", each) for each in ("1", "29550", "59999")),
    ("--data-parallel-size-local", "1"),
    *(("--distributed-executor-backend", each) for each in ("mp", "uni")),
    *(("--kv-cache-metrics-sample", each) for each in ("0.01", "1")),
    *(("--long-prefill-token-threshold", each) for each in ("256", "512")),
    *(("--mamba-backend", each) for each in ("triton", "flashinfer")),
    ("--numa-bind", "--numa-bind-nodes", "0"),
    ("--offload-backend", "prefetch", "--offload-group-size", "4"),
    ("--override-generation-config", '{"temperature": 0.6}'),
    *(("--safetensors-prefetch-block-size", each) for each in ("1", "1M")),
    *(("--show-hidden-metrics-for-version", each) for each in ("0.31", "0.31.0")),
    *(("--structured-outputs-config.backend", each) for each in ("auto", "xgrammar", "guidance", "outlines")),
    *(("--watermark", each) for each in ("0", "0.02")),
    *((flag, each) for flag in sorted(OF_WHOLE_NUMBERS) for each in ("1", "16", "1000000")),
)
"""Values of each form that starts for sure, and options that settle another one."""

MEDIA_LET_THROUGH: Final = (
    *(("--mm-encoder-fp8-scale-save-margin", each) for each in ("0.5", "2")),
    *(("--mm-processor-cache-gb", each) for each in ("0", "0.5", "8")),
    ("--mm-tensor-ipc", "direct_rpc"),
    ("--limit-mm-per-prompt", '{"image": 2}'),
)


def test_what_the_conditions_let_through_starts(recording: Recording) -> None:
    for asked, name in ((LET_THROUGH, DENSE), (MEDIA_LET_THROUGH, VISION)):
        assert [words for words in asked if not is_sure(words, name)] == []
        assert refused(recording, list(asked), name) == set()


def test_a_long_prompt_takes_no_more_of_a_step_than_the_context(recording: Recording) -> None:
    above = ("--long-prefill-token-threshold", "513")
    assert refused(recording, [above], DENSE) == {above}
    assert not is_sure(above)


def test_no_option_for_media_does_either(recording: Recording) -> None:
    """Checks of images and videos run for a model that takes them."""
    media = [words for words in lines() if words[0].startswith(("--mm-", "--no-mm-", "--media-", "--limit-mm-"))]
    found = refused(recording, media, VISION)
    assert sorted(words for words in found if is_sure(words, VISION)) == []
    assert {words[0] for words in found} >= {"--mm-tensor-ipc", "--mm-encoder-attn-backend"}
