"""Does the oracle answer with vLLM's own layers? Two models small enough to count by hand."""

from __future__ import annotations

import json
from pathlib import Path

from testbed.engine.environment import VLLM_VERSION
from testbed.engine.oracle.questions import Server
from tests.engine.questions import asked, oracle
from tests.engine.recording import Recording

HIDDEN, HEADS, KV_HEADS, HEAD, LAYERS = 64, 4, 2, 16, 2

COMMON = {
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "num_hidden_layers": LAYERS,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

LLAMA = COMMON | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 128}

MIXTURE = COMMON | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


def outside_layers(tp: int) -> int:
    # The vocabulary is padded to a multiple of 64 and split; the last norm is on every rank.
    return 2 * 1024 * HIDDEN // tp + HIDDEN


def attention(tp: int) -> int:
    # Four ranks over two key-value heads: each rank holds one whole head.
    kv_heads = max(1, KV_HEADS // tp)
    return (HEADS // tp + 2 * kv_heads) * HEAD * HIDDEN + HIDDEN * HEADS * HEAD // tp + 2 * HIDDEN


def test_ranks_weigh_what_their_layers_come_to(recording: Recording) -> None:
    questions = [
        asked("dense", LLAMA),
        asked("dense", LLAMA, tp=4),
        asked("dense", LLAMA, pp=2, stage=1),
        asked("mixture", MIXTURE, tp=2),
        asked("mixture", MIXTURE, tp=3, ep=True),
        asked("mixture", MIXTURE, tp=4, ep=True, tensors=True),
    ]
    rows = oracle(recording, questions)

    mlp = 3 * 128 * HIDDEN
    expert, router, head_norms = 3 * 32 * HIDDEN, 8 * HIDDEN, 2 * HEAD
    assert [row.get("parameters") for row in rows] == [
        outside_layers(1) + LAYERS * (attention(1) + mlp),
        outside_layers(4) + LAYERS * (attention(4) + mlp // 4),
        1024 * HIDDEN + HIDDEN + attention(1) + mlp,
        outside_layers(2) + LAYERS * (attention(2) + 8 * expert // 2 + router + head_norms),
        None,
        outside_layers(4) + LAYERS * (attention(4) + 8 // 4 * expert + router + head_norms),
    ]
    assert [row["bytes"] for row in rows if "error" not in row] == [
        2 * row["parameters"] for row in rows if "error" not in row
    ]
    assert "must be divisible by tensor parallel size" in rows[4]["error"]
    assert ["model.layers.1.mlp.gate.weight", [8, HIDDEN], "bfloat16"] in rows[5]["tensors"]
    assert {row["engine"] for row in rows} == {VLLM_VERSION}


def test_the_cache_is_planned_as_on_a_gpu(recording: Recording) -> None:
    server = Server(max_model_len=256, available_bytes=(2**10, 2**20))
    small, enough = oracle(recording, [asked("dense", LLAMA, server=server)])

    assert "too_small" in small
    page = 2 * KV_HEADS * HEAD * 2 * 16
    assert (enough["block_size"], enough["bytes_per_block"]) == (16, LAYERS * page)
    assert enough["num_blocks"] == 2**20 // (LAYERS * page)
    assert enough["max_concurrency"] == enough["num_blocks"] / (256 / 16)
    (group,) = enough["groups"]
    assert (group["spec"], group["layers"], group["page_size_bytes"]) == ("FullAttentionSpec", LAYERS, page)


def test_tables_in_host_memory_are_no_weights_of_a_gpu(recording: Recording) -> None:
    """DeepSeek-V4.1 and Qwen4-Exp: the figures that the project carries, asked again."""
    carried = json.loads((Path(__file__).parents[1] / "memory" / "data" / "ngram_models.json").read_text())
    rows = [row for row in carried["rows"] if row["tp"] == 2 and row["quantized"] is (row["model"] == "deepseek-v4.1")]
    assert len(rows) == 4
    questions = [asked(row["model"], carried["configs"][row["model"]], tp=row["tp"], ep=row["ep"]) for row in rows]
    assert [found.get("bytes", found) for found in oracle(recording, questions)] == [row["bytes"] for row in rows]
