"""``plimsoll plan`` and ``plimsoll estimate`` of rerankers, embedding models and a model that transcribes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run, deployments

FLEET = str(Path(__file__).resolve().parents[2] / "examples" / "fleet.yaml")

OVERRIDES = {
    "architectures": ["Qwen3ForSequenceClassification"],
    "classifier_from_token": ["no", "yes"],
    "is_original_qwen3_reranker": True,
}
RERANKER: dict[str, Any] = {
    "model": {
        "name": "Qwen/Qwen3-Reranker-0.6B",
        "config": {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151669,
            "max_position_embeddings": 40960,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
        },
    },
    "contextLength": 8192,
    "concurrency": 32,
    "engine": {"runner": "Pooling", "extraArgs": [f"--hf-overrides={json.dumps(OVERRIDES)}"]},
}
ENCODER = {"model": {"name": "BAAI/bge-reranker-v2-m3"}, "contextLength": 8192, "concurrency": 32}
WHISPER: dict[str, Any] = {
    "model": {
        "name": "openai/whisper-large-v3",
        "config": {
            "architectures": ["WhisperForConditionalGeneration"],
            "model_type": "whisper",
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "encoder_attention_heads": 20,
            "decoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "decoder_ffn_dim": 5120,
            "vocab_size": 51866,
            "max_source_positions": 1500,
            "max_target_positions": 448,
            "num_mel_bins": 128,
            "torch_dtype": "float16",
        },
    },
    "contextLength": 448,
    "concurrency": 16,
}

Write = Callable[[dict[str, Any]], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a manifest of this spec and gives its name."""

    def write_manifest(spec: dict[str, Any]) -> str:
        path, about = tmp_path / "given.yaml", {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment"}
        path.write_text(yaml.safe_dump({**about, "metadata": {"name": "asked"}, "spec": spec}), encoding="utf-8")
        return str(path)

    return write_manifest


def planned(run: Run, write: Write, spec: dict[str, Any], shape: str = "json") -> str:
    status, shown, _ = run("plan", "-f", write(spec), "--fleet", FLEET, "-o", shape)
    assert status == 0
    return shown


def value(entry: dict[str, Any], flag: str) -> str:
    arguments: list[str] = entry["engineArguments"]
    return arguments[arguments.index(flag) + 1]


def test_a_reranker_of_32_long_requests_gets_the_smallest_card(run: Run, write: Write) -> None:
    (entry,) = deployments(planned(run, write, RERANKER))
    assert (entry["placement"]["gpuType"], entry["placement"]["tensorParallel"]) == ("l4-24gb", 1)
    assert entry["estimate"]["kvNeededTokens"] == 8192 + 2048
    flags = ("--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--runner")
    assert [value(entry, flag) for flag in flags] == ["32", "2048", "8192", "pooling"]


def test_the_same_load_of_a_model_that_generates_does_not_fit_there(run: Run, write: Write) -> None:
    (entry,) = deployments(planned(run, write, {**RERANKER, "engine": {}}))
    assert entry["placement"]["gpuType"] != "l4-24gb"
    assert entry["estimate"]["kvNeededTokens"] == 32 * 8192


def test_more_requests_wait_and_cost_no_cache(run: Run, write: Write) -> None:
    few, many = (deployments(planned(run, write, {**RERANKER, "concurrency": number}))[0] for number in (32, 512))
    assert many["estimate"]["kvCacheBytes"] == few["estimate"]["kvCacheBytes"]
    assert [value(each, "--max-num-seqs") for each in (few, many)] == ["32", "512"]


def test_the_estimate_says_what_the_cache_holds_and_what_waits(run: Run, write: Write) -> None:
    _, shown, _ = run("estimate", write(RERANKER), "--gpu", "l4-24gb")
    words = " ".join(shown.split())
    assert "KV cache: 10,240 tokens take 1.10 GiB of each GPU: 114,688 bytes a token." in words
    assert "the others wait in the engine's queue" in words
    assert "Most requests at the same time, each of which waits for a step:" in words
    _, shown, _ = run("estimate", write(RERANKER), "--gpu", "l4-24gb", "-o", "json")
    cache = json.loads(shown)["answers"][0]["kvCache"]
    assert (cache["ofSteps"], cache["requests"], cache["tokensOfRequest"]) == (True, 1, 10_240)
    _, shown, _ = run("estimate", write(RERANKER), "--gpu", "l4-24gb", "--why")
    assert "2,048 tokens of running steps + 8,192 of a request that was begun, the others wait" in " ".join(
        shown.split()
    )


def test_there_is_room_for_it_where_the_plan_puts_it(run: Run, write: Write) -> None:
    found = {}
    for name, spec in (("pools", RERANKER), ("generates", {**RERANKER, "engine": {}})):
        _, shown, _ = run("capacity", "-f", write(spec), "--fleet", FLEET, "-o", "json")
        found[name] = sum(place["fitAlone"] for place in json.loads(shown)["places"] if place["gpuType"] == "l4-24gb")
    assert found == {"pools": 1, "generates": 0}


def test_an_encoder_is_placed_by_its_name_alone_and_keeps_no_cache(run: Run, write: Write) -> None:
    shown = " ".join(planned(run, write, ENCODER, "table").split())
    assert "default/asked yes l4-24gb" in shown
    assert "KV cache: none. The engine reads an input in one step and keeps nothing of it." in shown
    (entry,) = deployments(planned(run, write, ENCODER))
    assert (entry["estimate"]["kvCacheBytes"], value(entry, "--max-num-batched-tokens")) == (0, "8192")
    _, shown, _ = run("estimate", write(ENCODER), "--gpu", "l4-24gb")
    assert "0.0x" not in shown
    assert "0-0" not in shown


def test_a_model_that_transcribes_generates_and_keeps_every_request(run: Run, write: Write) -> None:
    (entry,) = deployments(planned(run, write, WHISPER))
    assert (entry["placement"]["gpuType"], entry["estimate"]["kvNeededTokens"]) == ("l4-24gb", 16 * 448)
    _, shown, _ = run("estimate", write(WHISPER), "--gpu", "l4-24gb")
    assert "in layers with a window, a state or encoder outputs, which stop growing" in " ".join(shown.split())
