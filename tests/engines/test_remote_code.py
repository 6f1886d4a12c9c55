"""Models whose configuration only code of their repository reads: vLLM ends without ``--trust-remote-code``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.engines.vllm.remote_code import brought_kind, code_refusal
from plimsoll.engines.vllm.starts.command_line import read_command
from tests.support.planning import model

V = EngineVersion


def said(name: str, release: EngineVersion, *, trusts: bool = False) -> tuple[bool, bool]:
    """Whether the engine ends for sure, and whether it may."""
    engine = EngineChoice(release, trusts_code=trusts)
    return code_refusal(model(name), engine) is not None, brought_kind(model(name), engine) is not None


@pytest.mark.parametrize(
    "name",
    ["xverse/XVERSE-7B", "microsoft/Phi-3-small", "internlm/internlm2-7b", "OrionStarAI/Orion-14B-Base",
     "openbmb/MiniCPM-2B"],
)  # fmt: skip
def test_a_kind_that_no_release_has_needs_the_flag(name: str) -> None:
    for release in (V(0, 8), V(0, 32), V(0, 33)):
        assert said(name, release) == (True, True)
        assert said(name, release, trusts=True) == (False, False)


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("deepseek-ai/DeepSeek-V3", V(0, 8, 3)),
        ("deepseek-ai/DeepSeek-V2-Lite", V(0, 10, 1)),
        ("moonshotai/Kimi-K2-Instruct", V(0, 18)),
        ("openbmb/MiniCPM3-4B", V(0, 32)),
    ],
)
def test_a_kind_that_a_later_release_has_is_a_doubt_before_it(name: str, since: EngineVersion) -> None:
    """Sources: ``_CONFIG_REGISTRY`` of 0.18 (kimi_k2), and the oldest Transformers that 0.8.3, 0.10.1, 0.32 admit."""
    assert said(name, V(0, 8)) == (False, True)
    assert said(name, since) == (False, False)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-8B", "microsoft/Phi-3-mini-128k-instruct", "zai-org/chatglm3-6b"])
def test_who_brings_no_code_or_a_known_kind_is_not_asked_for_it(name: str) -> None:
    assert said(name, V(0, 8)) == said(name, V(0, 33)) == (False, False)


def test_a_kind_that_went_and_one_that_is_to_come() -> None:
    """``exaone`` went from vLLM's registry with 0.10.1; ``sarvam_moe`` is in a later Transformers alone."""
    gone, coming = (replace(model(), brings_configuration=kind) for kind in ("exaone", "sarvam_moe"))
    assert [code_refusal(gone, EngineChoice(V(0, minor))) is None for minor in (10, 11)] == [True, False]
    assert [brought_kind(gone, EngineChoice(V(0, minor))) for minor in (10, 11)] == [None, "exaone"]
    assert (code_refusal(coming, EngineChoice(V(0, 33))), brought_kind(coming, EngineChoice(V(0, 33)))) == (
        None,
        "sarvam_moe",
    )


def test_the_flag_is_read_in_every_spelling() -> None:
    for words in (["--trust-remote-code"], ["--trust_remote_code"], ["--seed=1", "--trust-remote"]):
        assert read_command(words, {}, "here", V(0, 32)).options.trusts_code
    for words in ([], ["--no-trust-remote-code"], ["--trust-remote-code", "--no-trust-remote-code"], ["--seed=1"]):
        assert not read_command(words, {}, "here", V(0, 32)).options.trusts_code


def test_the_words_name_the_flag_and_the_kind() -> None:
    refusal = code_refusal(model("xverse/XVERSE-7B"), EngineChoice(V(0, 32)))
    assert refusal is not None
    assert "(xverse)" in refusal
    assert "pass --trust-remote-code (spec.engine.extraArgs)" in refusal
