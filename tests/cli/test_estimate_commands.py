"""``plimsoll estimate -- COMMAND``: whether a server starts as given, and which KV cache it gets."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.cli import main as command_line
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.starts.start_question import start_question
from plimsoll.cli.starts.written_commands import command_in
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.engines.engine_choice import CpuOffload, EngineChoice, EngineVersion, LoraSlots, Speculation
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from tests.support.planning import LLAMA_8B, gpu, model
from tests.support.tables import examples

QWEN = "Qwen/Qwen3-8B"
H100, L4, T4 = "h100-sxm-80gb", "l4-24gb", "t4-16gb"


class Ran:
    """The output of one call of the command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        self.error = ""
        try:
            command_line.cli.main(["estimate", *words], standalone_mode=False)
        except PlimsollError as error:
            self.error = str(error)
        self.shown = capsys.readouterr().out

    def answer(self) -> dict[str, Any]:
        """The only answer of ``-o json``."""
        assert self.error == ""
        (found,) = json.loads(self.shown)["answers"]
        return dict(found)


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def one(capsys: pytest.CaptureFixture[str]) -> Any:
    """Ask about a command on one GPU type."""

    def ask(*words: str, kind: str = H100, **options: str) -> dict[str, Any]:
        own = [word for name, value in options.items() for word in (f"--{name}", value)]
        return Ran(capsys, "--gpu", kind, "-o", "json", *own, "--", "vllm", "serve", *words).answer()

    return ask


def started(name: str, release: str, context: int, **engine: Any) -> Request:
    """The request of a start, made by hand."""
    facts, version = model(name), EngineVersion.of(release)
    choice = EngineChoice(version, own_defaults=True, **engine)
    narrow = facts.checkpoint.kv_precision or KvPrecision.BF16
    return Request(ObjectKey("a", "b"), facts, facts.checkpoint.precision, narrow, ServingShape(context, 1), choice)


def by_hand(request: Request, kind: str, split: Split | None = None) -> tuple[EngineSettings, MemoryEstimate]:
    cut = split or Split(1)
    chosen = engine_settings(request, gpu(kind), cut)
    return chosen, estimate(request, gpu(kind), cut, chosen)


def same(answer: dict[str, Any], figures: MemoryEstimate) -> None:
    """The answer has these figures."""
    terms = {term.name.key: term.size_bytes for term in figures.terms}
    assert answer["terms"]["weightsBytes"] == terms["weights"]
    assert answer["terms"]["activationsBytes"] == terms["activations"]
    assert answer["availableKvBytes"] == figures.available_kv_bytes
    assert answer["kvCapacityTokens"]["expected"] == figures.kv_capacity_tokens
    assert (answer["budgetBytes"], answer["fit"]) == (figures.budget_bytes, figures.fit.value)


def test_what_nobody_names_has_the_engines_own_default(one: Any) -> None:
    answer = one(QWEN)
    engine = {"maxModelLen": 40_960, "maxNumSeqs": 1024, "maxNumBatchedTokens": 8192}
    assert answer["engine"] == {**engine, "gpuMemoryUtilizationPercent": 92, "name": "vllm", "version": "0.32.0"}
    assert (answer["fit"], answer["doubts"]) == ("Sure", [])
    assert "By the engine's defaults: 1,024 requests at the same time, 8,192 tokens of a step." in answer["notes"]
    small = one(QWEN, kind=L4, engine="0.19.0")
    assert (small["engine"]["maxNumSeqs"], small["engine"]["gpuMemoryUtilizationPercent"]) == (256, 90)
    same(answer, by_hand(started(QWEN, "0.32.0", 40_960), H100)[1])


def test_options_of_the_command_decide_the_figures(one: Any) -> None:
    answer = one(QWEN, "--max-model-len", "16k", "-tp", "2", "--max-num-seqs=64", "--enable-lora", "--max-lora-rank=64")
    request = started(QWEN, "0.32.0", 16_000, max_sequences=64, lora=LoraSlots(1, 64))
    same(answer, by_hand(request, H100, Split(2))[1])
    offloaded = one(QWEN, "--cpu-offload-gb", "4", "--speculative-config.method=ngram", "--enforce-eager",
                    "--speculative-config.num_speculative_tokens", "3", "--kv-cache-dtype", "fp8", kind=L4)  # fmt: skip
    request = started(
        QWEN, "0.32.0", 40_960, residency=CpuOffload(4 * GIB), speculation=Speculation(3), enforce_eager=True
    )
    same(offloaded, by_hand(replace(request, kv_precision=KvPrecision.FP8), L4)[1])
    made = one(QWEN, "--quantization", "fp8", "--max-model-len=4096", kind=L4)
    same(made, by_hand(replace(started(QWEN, "0.32.0", 4096), precision=Precision.FP8), L4)[1])


def test_a_share_that_is_no_whole_percentage_is_counted_exactly(one: Any) -> None:
    whole, exact = (one(QWEN, f"--gpu-memory-utilization={share}")["budgetBytes"] for share in ("0.9", "0.925"))
    assert exact == pytest.approx(whole * 0.925 / 0.9, rel=1e-6)


def test_more_requests_take_more_cache_and_change_nothing_else(one: Any) -> None:
    single, several = one(QWEN), one(QWEN, concurrency="4")
    assert several["terms"]["kvCacheBytes"] == pytest.approx(4 * single["terms"]["kvCacheBytes"], rel=1e-3)
    assert several["availableKvBytes"] == single["availableKvBytes"]
    assert several["engine"] == single["engine"]


def test_engines_without_experts_share_nothing(one: Any) -> None:
    alone, two = one(QWEN, "-tp", "2"), one(QWEN, "-tp", "2", "-dp", "2")
    assert two["terms"] == alone["terms"]
    assert two["dataParallel"] == 1
    assert any("2 engines of 2 GPUs each" in note for note in two["notes"])


def test_engines_with_experts_share_them(one: Any) -> None:
    wide, whole = (one("Qwen/Qwen3-30B-A3B", "-dp", "2", *more) for more in ((), ("--enable-expert-parallel",)))
    alone = one("Qwen/Qwen3-30B-A3B")
    assert (wide["dataParallel"], wide["expertParallel"], whole["expertParallel"]) == (2, False, True)
    assert wide["terms"]["weightsBytes"] < 0.6 * alone["terms"]["weightsBytes"]
    assert whole["terms"]["weightsBytes"] < 0.6 * alone["terms"]["weightsBytes"]


def test_what_no_law_covers_is_a_doubt_and_its_neighbour_is_listed_as_harmless(one: Any) -> None:
    answer = one(QWEN, "--attention-backend", "FLASHINFER", "--enable-log-requests", "--port=80")
    assert answer["fit"] == "Probable"
    assert [each["code"] for each in answer["doubts"]] == ["UnfollowedOptions"]
    assert answer["command"]["withoutLaw"] == ["--attention-backend=FLASHINFER"]
    assert answer["command"]["withoutInfluence"] == ["--enable-log-requests", "--port"]
    (warning,) = answer["warnings"]
    assert "--attention-backend=FLASHINFER" in warning
    plain = one(QWEN, "--enable-log-requests", "--port=80")
    assert (plain["fit"], plain["doubts"], plain["warnings"]) == ("Sure", [], [])


def test_a_quantization_without_a_law_is_a_doubt_for_16_bits_alone(one: Any) -> None:
    assert one(QWEN, "--quantization=humming")["command"]["withoutLaw"] == ["--quantization=humming"]
    own = one("Qwen/Qwen2.5-7B-Instruct-AWQ", "--quantization=awq_marlin", "--max-model-len=4096")
    assert (own["fit"], own["command"]["withoutLaw"]) == ("Sure", [])


def test_a_format_whose_files_are_not_known_is_a_doubt(one: Any) -> None:
    answer = one(QWEN, "--config-format=mistral")
    assert answer["fit"] == "Probable"
    assert [each["code"] for each in answer["doubts"]] == ["FilesNotKnown"]
    assert one(QWEN, "--config-format=hf")["fit"] == "Sure"


def test_a_type_that_the_engine_chooses_decides_the_bytes(one: Any) -> None:
    """Gemma 3 starts in no 16-bit type of a T4: the engine takes float32, with twice the weights."""
    short = ("google/gemma-3-1b-it", "--max-model-len=2048")
    narrow, wide = one(*short), one(*short, kind="t4")
    assert 1.9 < wide["terms"]["weightsBytes"] / narrow["terms"]["weightsBytes"] < 2.1
    assert wide["fit"] == "Probable"
    assert "Float32" in [each["code"] for each in wide["doubts"]]


def test_a_tower_is_left_out_or_copied_as_the_command_says(one: Any) -> None:
    name = "Qwen/Qwen3-VL-8B-Instruct"
    usual, without, copied = (
        one(name, "-tp=2", "--max-model-len=8192", *more)["terms"]["weightsBytes"]
        for more in ((), ("--limit-mm-per-prompt", '{"image": 0, "video": 0}'), ("--mm-encoder-tp-mode", "data"))
    )
    assert without < usual < copied
    name = "google/gemma-3-27b-it"
    usual, without, copied, images = (
        one(name, "-tp=2", "--max-model-len=8192", *more)["terms"]["weightsBytes"]
        for more in ((), ("--language-model-only",), ("--mm-encoder-tp-mode=data",), ("--limit-mm-per-prompt.image=0",))
    )
    assert copied == usual, "the engine cannot copy the tower of this class"
    assert images == without < usual, "it has no videos"


def test_variables_in_front_belong_to_the_process(one: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["VLLM_MLA_DISABLE=1", "vllm", "serve", QWEN],
        ["env", "VLLM_MLA_DISABLE=1", "vllm", "serve", QWEN],
    ):
        found = Ran(capsys, "--gpu", H100, "-o", "json", "--", *words).answer()
        assert found["command"]["withoutLaw"] == ["VLLM_MLA_DISABLE=1"]
    assert one(QWEN)["command"]["withoutLaw"] == []


def test_shells_within_shells_end_somewhere() -> None:
    inner = f"vllm serve {QWEN}"
    assert command_in(["sh", "-c", inner]) is not None
    for _ in range(4):
        inner = f"sh -c {shlex.quote(inner)}"
    assert command_in([inner]) is not None
    for _ in range(2):
        inner = f"sh -c {shlex.quote(inner)}"
    assert command_in([inner]) is None


def test_a_table_of_all_types_names_what_has_no_law(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(Ran(capsys, f"vllm serve {QWEN} --moe-backend triton").shown.split())
    assert "The memory law does not include --moe-backend=triton." in shown
    assert "--context-length is --max-model-len" in shown


WAYS: dict[str, list[str]] = {
    "words behind two dashes": ["--", "vllm", "serve", QWEN, "--max-model-len", "4096"],
    "words alone": ["vllm", "serve", QWEN, "--max-model-len", "4096"],
    "one text": [f"vllm serve {QWEN} --max-model-len=4096"],
    "one text behind two dashes": ["--", f"vllm serve {QWEN} --max-model-len=4096"],
    "the older module": [
        "--",
        "python3",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        QWEN,
        "--max-model-len=4k",
    ],
    "the module alone": [
        "python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={QWEN}",
        "--max_model_len=4096",
    ],
    "the model as an option": ["--", "vllm", "serve", "--max-model-len=4096", "--model", QWEN],
    "variables in front": ["--", "CUDA_VISIBLE_DEVICES=0", "vllm", "serve", QWEN, "--max-model-len=4096"],
    "a script": [f"export LEN=4096; cd /x && exec vllm serve {QWEN} \\\n --max-model-len $LEN 2>&1 | tee log"],
    "a shell": ["--", "bash", "-lc", f"vllm serve {QWEN} --max-model-len 4096"],
    "capitals": ["--", "vllm", "serve", QWEN.lower(), "--max-model-len=4096"],
}


@pytest.mark.parametrize("case", WAYS)
def test_a_command_may_be_written_in_many_ways(case: str, capsys: pytest.CaptureFixture[str], one: Any) -> None:
    wanted = one(QWEN, "--max-model-len=4096")
    found = Ran(capsys, "--gpu", H100, "-o", "json", *(each.replace("4k", "4096") for each in WAYS[case])).answer()
    assert (found["terms"], found["engine"], found["fit"]) == (wanted["terms"], wanted["engine"], wanted["fit"])


def test_a_model_of_a_folder_is_its_checkpoint(one: Any, tmp_path: Path) -> None:
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_attention_heads": 4, "vocab_size": 1000,
              "num_hidden_layers": 2, "intermediate_size": 512, "max_position_embeddings": 2048,
              "torch_dtype": "bfloat16", "model_type": "llama"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert one(str(tmp_path))["engine"]["maxModelLen"] == 2048


REFUSED: dict[str, tuple[list[str], str]] = {
    "no model": (["vllm", "serve", "--port=1"], "Name it, e.g. `vllm serve"),
    "a place": (["vllm", "serve", "/models/llama"], "is a place that is not on this machine"),
    "a model of a variable": (["vllm serve $MODEL"], "The value of $MODEL is not known here"),
    "a number of a variable": ([f"vllm serve {QWEN} -tp $TP"], "--tensor-parallel-size: '$TP' cannot be used"),
    "too long a context": (["vllm", "serve", QWEN, "--max-model-len=50000"], "write at most 40960"),
    "an old release": (["--engine", "0.7.0", "vllm", "serve", QWEN], "Use 0.8.0 or newer"),
    "no release": (["--engine", "new", "vllm", "serve", QWEN], "Write a release"),
    "a release that lacks the model": (["--engine=0.9.0", "vllm", "serve", "openai/gpt-oss-20b"], "GptOssForC"),
    "an option twice": (
        ["--context-length", "99", "vllm", "serve", QWEN],
        "--context-length: 99 cannot be used. The command says",
    ),
    "a degree twice": (["--tp", "2", "vllm", "serve", QWEN], "--tp: 2 cannot be used. The command says"),
    "a step below the engine's": (
        ["vllm", "serve", "google/gemma-4-26B-A4B", "--max-num-batched-tokens=2048"],
        "needs a step of 2,496 tokens",
    ),
    "blocks that no kernel reads": (
        ["vllm", "serve", QWEN, "--block-size=40"],
        "--block-size: 40 cannot be used. No attention backend of vLLM reads such blocks: write a multiple of 16",
    ),
    "code of the model's repository": (
        ["vllm", "serve", "xverse/XVERSE-7B"],
        "the model: 'xverse/XVERSE-7B' cannot be used. Its configuration (xverse) is read by code of its repository",
    ),
    "a value that the parser does not take": (
        ["vllm", "serve", QWEN, "--scheduling-policy", "lifo"],
        "--scheduling-policy: 'lifo' cannot be used. --scheduling-policy takes fcfs, priority.",
    ),
    "tools without a parser": (
        ["vllm", "serve", QWEN, "--enable-auto-tool-choice"],
        "--enable-auto-tool-choice needs --tool-call-parser: add it",
    ),
    "no command": (["nginx", "run"], "Name a model, -f FILE, or a command: -- vllm serve"),
    "nothing": ([], "Name a model, -f FILE, or a command"),
    "a head of another model": (
        ["vllm", "serve", QWEN, "--spec-method=draft_model", "--spec-tokens=2", f"--spec-model={LLAMA_8B}"],
        "name a draft of the same vocabulary",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused_with_a_fix(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, fix = REFUSED[case]
    assert fix in Ran(capsys, *words).error


def test_an_engine_that_lacks_blocks_for_states_does_not_start(one: Any) -> None:
    """Source: https://github.com/vllm-project/recipes/issues/551, an engine with 1,024 sequences and 856 blocks.

    The model of the report is not catalogued; this one has layers of the same kinds.
    """
    answer = one("Qwen/Qwen3.5-27B", "--quantization=fp8", "--gpu-memory-utilization=0.95", engine="0.23.0")
    assert (answer["engine"]["maxNumSeqs"], answer["fit"]) == (1024, "No")
    assert answer["maxSequences"] < 1024
    assert any(f"Write --max-num-seqs {answer['maxSequences']}." in warning for warning in answer["warnings"])
    fewer = one(
        "Qwen/Qwen3.5-27B", "--quantization=fp8", "--gpu-memory-utilization=0.95", "--max-num-seqs=512", engine="0.23.0"
    )
    assert fewer["fit"] == "Sure"


def test_a_number_of_blocks_decides_the_cache_in_the_engines_terms(
    one: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: ``get_kv_cache_configs`` of vLLM 0.33: a request may hold all blocks but one."""
    enough, small = (one(QWEN, f"--num-gpu-blocks-override={blocks}") for blocks in (2561, 2560))
    assert (enough["fit"], small["fit"]) == ("Sure", "No")
    assert small["kvCapacityTokens"] == {"expected": 40_960, "low": 40_960, "high": 40_960}
    shown = Ran(capsys, "--gpu", H100, f"vllm serve {QWEN} --num-gpu-blocks-override 2560").shown
    assert "the cache is given 2,560 blocks, and the load needs 2,561" in " ".join(shown.split())
    messages = [each["message"] for each in small["remedies"]]
    assert any(each.startswith("the size of the KV cache left to the engine") for each in messages), messages
    wide = one(QWEN, "--num-gpu-blocks-override=2560", "--block-size=32")
    assert (wide["fit"], wide["kvCapacityTokens"]["expected"]) == ("Sure", 81_920)


def test_blocks_whose_tokens_depend_on_the_kernels_stay_a_doubt(one: Any) -> None:
    """Source: FlashMLA reads pages of 64 tokens, Triton's kernel for latent rows pages of 16."""
    name = "deepseek-ai/DeepSeek-V2-Lite"
    unknown = one(name, "--num-gpu-blocks-override=40000", engine="0.23.0")
    assert unknown["command"]["withoutLaw"] == ["--num-gpu-blocks-override=40000"]
    known = one(name, "--num-gpu-blocks-override=4000", "--block-size=64", engine="0.23.0")
    assert (known["command"]["withoutLaw"], known["kvCapacityTokens"]["expected"]) == ([], 256_000)
    odd = one(name, "--block-size=16", engine="0.23.0")
    assert odd["command"]["withoutLaw"] == ["--block-size=16"]


def test_code_of_a_repository_is_run_where_the_command_says_so(one: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert one("internlm/internlm2_5-7b-chat", "--trust-remote-code")["fit"] == "Sure"
    plain = Ran(capsys, "internlm/internlm2_5-7b-chat", "--gpu", H100, "-o", "json").answer()
    assert (plain["fit"], [each["code"] for each in plain["doubts"]]) == ("Probable", ["RemoteCode"])
    assert "without --trust-remote-code" in plain["doubts"][0]["message"]
    known = Ran(capsys, "zai-org/chatglm3-6b", "--gpu", H100, "-o", "json").answer()
    assert (known["fit"], known["doubts"]) == ("Sure", [])


def test_a_type_that_nobody_names_is_cast_on_a_gpu_without_bfloat16(one: Any) -> None:
    """Source: ``_resolve_auto_dtype`` of ``config/model.py``, 0.9 to 0.33; 0.8.5 refuses instead."""
    small = "Qwen/Qwen3-0.6B"
    cast, named = one(small, kind=T4), one(small, "--dtype=half", kind=T4)
    assert (cast["fit"], cast["terms"]) == ("Sure", named["terms"])
    assert one(small, "--dtype=bfloat16", kind=T4)["fit"] == "No"
    assert [one(small, kind=T4, engine=release)["fit"] == "No" for release in ("0.8.5", "0.9.0")] == [True, False]
    assert one("google/gemma-3-4b-it", "--max-model-len=4096", kind=T4)["fit"] == "No", "it would be float32"


def test_a_flag_that_does_not_fit_the_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    error = Ran(capsys, f"vllm serve {QWEN} -dp 4 --enable-expert-parallel").error
    assert error.startswith("the command: --enable-expert-parallel: 'set' cannot be used. Qwen/Qwen3-8B has no experts")


def test_more_sequences_than_states_start_without_graphs(one: Any) -> None:
    """Source: ``resolve_cudagraph_mode_and_sizes`` of ``config/compilation.py``: since 0.20, with full graphs alone."""
    words = ("Qwen/Qwen3.5-27B", "--quantization=fp8", "--max-num-seqs=2048")
    assert one(*words)["fit"] == "No"
    assert one(*words, "--enforce-eager")["fit"] == "Sure"
    assert one(*words, engine="0.19.0")["fit"] != "No"


def test_a_default_of_an_old_release_can_be_what_does_not_fit(one: Any) -> None:
    """Source: https://github.com/vllm-project/vllm/issues/17238: 1,024 sequences of 0.8.1 leave no cache, 8 do."""
    name = "Qwen/Qwen2.5-7B-Instruct"
    usual = one(name, "--max-model-len=4096", "--enforce-eager", engine="0.8.1", kind="rtx-3090-24gb")
    eight = one(
        name, "--max-model-len=4096", "--enforce-eager", "--max-num-seqs=8", engine="0.8.1", kind="rtx-3090-24gb"
    )
    assert (usual["engine"]["maxNumSeqs"], eight["engine"]["maxNumSeqs"]) == (1024, 8)
    assert usual["terms"]["activationsBytes"] > 10 * eight["terms"]["activationsBytes"]


def test_fewer_sequences_are_a_remedy_in_the_words_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = "vllm serve Qwen/Qwen3.5-27B --quantization fp8 --gpu-memory-utilization 0.95 --max-num-seqs 1024"
    found = Ran(capsys, "--gpu", H100, "--engine", "0.23.0", "-o", "json", command).answer()
    first = found["remedies"][0]
    assert first["options"].startswith("--max-num-seqs ")
    assert "at most" in first["message"]
    assert "spec." not in first["message"]


def test_most_requests_of_an_engine_are_an_option_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    usual = Ran(capsys, QWEN, "--gpu", H100, "-o", "json").answer()
    wide = Ran(capsys, QWEN, "--gpu", H100, "--max-num-seqs", "256", "-o", "json").answer()
    assert (usual["engine"]["maxNumSeqs"], wide["engine"]["maxNumSeqs"]) == (16, 256)
    assert wide["terms"]["kvCacheBytes"] == usual["terms"]["kvCacheBytes"], "the load is the same"
    assert wide["expectedBytes"] > usual["expectedBytes"]
    few = Ran(capsys, QWEN, "--max-num-seqs", "8").error
    assert "spec.engine.maxSequences: 8 cannot be used. Write at least the 16 of concurrency" in few


WORDS = st.sampled_from(
    ["vllm", "serve", QWEN, "-c", "sh", "--", "-m", "vllm.entrypoints.openai.api_server", "A=1", "$X", "'", "-tp", "2",
     "--max-model-len", "-1", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}', "--runner",
     "pooling", "--quantization", "fp8", "--kv-cache-dtype", "nvfp4", "-dp", "--enable-expert-parallel"]
) | st.text(max_size=8)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(WORDS, max_size=8), st.booleans())
def test_any_words_are_answered_or_refused(words: list[str], begins: bool) -> None:  # noqa: FBT001 - a draw
    line = ["vllm", "serve", QWEN, *words] if begins else words
    with suppress(PlimsollError):
        written = command_in(line)
        if written is not None:
            start_question(written, TypedOptions(), None)
