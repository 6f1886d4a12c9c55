"""``plimsoll estimate``: any model on any GPU, without a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll.cli import main as command_line
from plimsoll.cli.answers.bars import BAR_CELLS, budget_bar
from plimsoll.cli.answers.sentences import verdict
from plimsoll.cli.process import EXIT_BAD_INPUT
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Split
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.settings import engine_settings
from tests.adapters.fake_hub import safetensors
from tests.facts.checkpoints import row_of, tensors_of
from tests.support.model_configs import CONFIGS, config_of
from tests.support.planning import H100, L4, LLAMA_8B, gpu, request
from tests.support.tables import every_case
from tests.support.terms import terms_of

LATENT = "deepseek-ai/DeepSeek-V3"

QWEN = CONFIGS / "Qwen__Qwen3-8B.json"
PLAIN = CONFIGS / "Qwen__Qwen2.5-7B.json"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "01-minimal" / "deployment.yaml"
LETTERS = "WLKAGOm."


class Ran:
    """What one call of the command said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> None:
        try:
            command_line.cli.main(["estimate", *words], standalone_mode=False)
            self.status = 0
        except PlimsollError as error:
            self.status, self.error = EXIT_BAD_INPUT, str(error)
        self.shown = capsys.readouterr().out

    def answers(self) -> list[dict[str, Any]]:
        """The answers of ``-o json``."""
        assert self.status == 0, self.error
        found: list[dict[str, Any]] = json.loads(self.shown)["answers"]
        return found


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def one(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    form = () if "-o" in words else ("-o", "json")
    (answer,) = Ran(capsys, [*words, *form]).answers()
    return answer


def test_a_catalogued_name_on_one_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [LLAMA_8B, "--gpu", H100]).shown
    assert f"{LLAMA_8B} (LlamaForCausalLM, known): weights bf16, KV cache bf16, 16 requests of 8,192 tokens" in shown
    assert re.search(rf"{H100} +1 +1 +fits", shown)
    for term in ("weights", "KV cache", "activations", "margin", "needed, to be sure", "the engine may use"):
        assert re.search(rf"^ {term} +\d+\.\d\d", shown, re.MULTILINE)
    assert "It fits for sure" in shown
    assert "Longest context for 16 requests" in shown


def test_every_gpu_type_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    answers = Ran(capsys, [LLAMA_8B, "-o", "json"]).answers()
    names = [answer["gpuType"] for answer in answers]
    assert {H100, L4} <= set(names)
    assert len(names) == len(set(names))


def test_a_folder_of_an_unknown_class_tells_its_weights_by_its_tensors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    row = row_of("Qwen/Qwen2.5-7B")
    config = json.loads(PLAIN.read_text()) | {"architectures": ["NobodyKnowsForCausalLM"], "model_type": "nobody"}
    shapes = {tensor.name: (tensor.dtype, list(tensor.shape)) for tensor in tensors_of(row)}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(safetensors(shapes))
    known, told = (one(capsys, str(source), "--gpu", H100) for source in (PLAIN, tmp_path))
    assert told["terms"]["weightsBytes"] == pytest.approx(known["terms"]["weightsBytes"], rel=1e-3)
    assert told["terms"]["marginBytes"] > known["terms"]["marginBytes"]
    assert "tensors" in Ran(capsys, [str(tmp_path), "--gpu", H100]).shown


def test_a_folder_without_a_configuration_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = Ran(capsys, [str(tmp_path), "--gpu", H100])
    assert ran.status == EXIT_BAD_INPUT
    assert "The folder holds no config.json. Name a model (owner/name), the folder" in ran.error


def test_a_path_that_leads_nowhere_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = Ran(capsys, [str(tmp_path / "nothing"), "--gpu", H100])
    assert ran.status == EXIT_BAD_INPUT
    assert "no such file or folder" in ran.error


def test_a_config_json_is_a_model_too(capsys: pytest.CaptureFixture[str]) -> None:
    answer = one(capsys, str(QWEN), "--gpu", H100)
    assert answer["fit"] == "Sure"
    assert answer["terms"]["weightsBytes"] == pytest.approx(2 * 8.19e9, rel=0.01)


def test_a_file_called_config_json_gets_the_name_of_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    (folder / "config.json").write_text(QWEN.read_text())
    assert "my-model (Qwen3ForCausalLM" in Ran(capsys, [str(folder / "config.json"), "--gpu", H100]).shown


def test_a_manifest_brings_its_load_and_options_change_it(capsys: pytest.CaptureFixture[str]) -> None:
    spec = yaml.safe_load(EXAMPLE.read_text())["spec"]
    answer = one(capsys, str(EXAMPLE), "--gpu", H100)
    assert answer["engine"]["maxModelLen"] == spec["contextLength"]
    assert answer["engine"]["maxNumSeqs"] == spec["concurrency"]
    changed = one(capsys, str(EXAMPLE), "--gpu", H100, "--context-length", "2048", "--concurrency", "3")
    assert (changed["engine"]["maxModelLen"], changed["engine"]["maxNumSeqs"]) == (2048, 3)
    assert changed["kvNeededTokens"] == 3 * 2048


def test_a_manifest_s_override_is_obeyed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    body = yaml.safe_load(EXAMPLE.read_text())
    body["spec"]["overrides"] = {"gpuType": L4, "tensorParallel": 2}
    (tmp_path / "forced.yaml").write_text(yaml.safe_dump(body))
    answer = one(capsys, str(tmp_path / "forced.yaml"))
    assert (answer["gpuType"], answer["tensorParallel"]) == (L4, 2)


def test_a_manifest_s_context_is_not_lowered_in_silence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    body = yaml.safe_load(EXAMPLE.read_text())
    body["spec"] |= {"contextLength": 200_000, "concurrency": 1}
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(body))
    refused = Ran(capsys, (str(tmp_path / "long.yaml"), "--gpu", H100))
    assert refused.status == 2
    assert "spec.contextLength: 200000 cannot be used" in refused.error
    assert "write at most 131072" in refused.error
    body["spec"]["engine"] = {"extraArgs": ["--hf-overrides={}"]}
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(body))
    assert one(capsys, str(tmp_path / "long.yaml"), "--gpu", H100)["engine"]["maxModelLen"] == 200_000


def test_the_default_context_is_at_most_the_model_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert one(capsys, str(CONFIGS / "microsoft__phi-2.json"), "--gpu", H100)["engine"]["maxModelLen"] == 2048


def test_degree_stages_and_experts_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    answer = one(capsys, LLAMA_8B, "--gpu", H100, "--tp", "2", "--pp", "4")
    assert (answer["tensorParallel"], answer["pipelineParallel"]) == (2, 4)
    mixture = str(CONFIGS / "Qwen__Qwen3-30B-A3B-FP8.json")
    assert one(capsys, mixture, "--gpu", H100, "--tp", "4", "--ep")["expertParallel"] is True


def test_engines_side_by_side_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--tp", "1", "--context-length", "131072", "--concurrency", "16")
    answer = one(capsys, LATENT, "--gpu", "h200-sxm-141gb", "--dp", "8", *load)
    assert (answer["dataParallel"], answer["expertParallel"], answer["fit"]) == (8, True, "Probable")
    assert [each["code"] for each in answer["doubts"]] == ["NotMeasured"]
    assert (answer["kvNeededTokens"], answer["engine"]["maxNumSeqs"]) == (16 * 131_072, 3)
    assert answer["inverse"]["mostSequences"]["value"] == 16
    dense = one(capsys, LLAMA_8B, "--gpu", H100, "--tp", "1", "--dp", "8")
    assert (dense["fit"], dense["reason"], dense["dataParallel"]) == ("No", "DataParallelNeedsExperts", 8)


def test_the_words_count_whole_requests_on_each_engine(capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--context-length", "131072", "--concurrency", "16", "--why")
    ran = Ran(capsys, [LATENT, "--gpu", "h200-sxm-141gb", "--tp", "1", "--dp", "8", *load])
    shown = " ".join(ran.shown.split())
    assert "These are tokens of 8 engines. Each has a cache of its own and holds 2 of the requests." in shown
    assert "16 requests over 8 engines: at most 2 on each" in shown
    assert "1 x DP8 EP" in shown
    assert "24x" in shown, "3.1 requests on each engine are 3, and not 24.9 on all"


def test_what_cannot_be_cut_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    answer = one(capsys, LLAMA_8B, "--gpu", H100, "--tp", "3")
    assert (answer["fit"], answer["reason"]) == ("No", "HeadsNotDivisible")
    assert "2 works" in answer["message"]


def test_every_option_has_its_effect(capsys: pytest.CaptureFixture[str]) -> None:
    plain = one(capsys, LLAMA_8B, "--gpu", H100)
    quantized = one(capsys, LLAMA_8B, "--gpu", H100, "--precision", "fp8", "--kv-precision", "fp8")
    assert quantized["terms"]["weightsBytes"] < 0.6 * plain["terms"]["weightsBytes"]
    assert 2 * quantized["kvBytesPerToken"] == plain["kvBytesPerToken"]
    assert one(capsys, LLAMA_8B, "--gpu", H100, "--eager")["terms"]["cudaGraphsBytes"] == 0
    gemma = str(CONFIGS / "google__gemma-3-27b-it.json")
    text, whole = (one(capsys, gemma, "--gpu", H100, *option) for option in (["--text-only"], []))
    assert text["terms"]["weightsBytes"] < whole["terms"]["weightsBytes"]
    spared = one(capsys, LLAMA_8B, "--gpu", H100, "--cpu-offload", "4Gi")
    assert spared["hostBytes"] == plain["terms"]["weightsBytes"] - spared["terms"]["weightsBytes"] == 4 * GIB
    assert spared["decodeFloorSeconds"] > 10 * plain["decodeFloorSeconds"]
    layers = spared["hostLayers"]
    assert layers["copySeconds"] * 50e9 == layers["bytesOfLayer"] == pytest.approx(436.2e6, rel=0.001)
    assert (layers["requests"], layers["promptTokens"], layers["streamed"]) == (16, 8192, 0)
    assert 10_000 < layers["hiddenFromTokens"] < 13_000
    assert layers["decodeSeconds"] < layers["promptSeconds"] < layers["copySeconds"]
    assert "hostLayers" not in plain
    cached = one(capsys, LLAMA_8B, "--gpu", H100, "--host-memory", "200Gi")
    kept = cached.pop("hostCache")
    assert (kept["bytes"], kept["tokens"], kept["isLeast"]) == (200 * GIB, 1_638_400, False)
    assert 0 < 5 * kept["secondsPerToken"]["loaded"] < kept["secondsPerToken"]["computed"]
    assert cached == plain, "it makes nothing fit"
    assert "hostCache" not in one(capsys, LLAMA_8B, "--gpu", H100, "--host-memory", "auto")
    assert one(capsys, LLAMA_8B, "--gpu", H100, "--lora", "4", "16")["terms"]["adaptersBytes"] == 4 * 92_356_608
    assert one(capsys, LLAMA_8B, "--gpu", H100, "--utilization", "50")["budgetBytes"] < plain["budgetBytes"]
    assert one(capsys, LLAMA_8B, "--gpu", H100, "--engine", "0.21.0")["engine"]["version"] == "0.21.0"
    assert one(capsys, LLAMA_8B, "--gpu", H100, "--batched-tokens", "512")["engine"]["maxNumBatchedTokens"] == 512
    mean = one(capsys, LLAMA_8B, "--gpu", H100, "--prompt", "500", "--output-tokens", "100")
    assert mean["kvNeededTokens"] == 15 * 16 * 600 // 10


def test_json_has_every_figure_whole(capsys: pytest.CaptureFixture[str]) -> None:
    answer = one(capsys, LLAMA_8B, "--gpu", H100)
    terms = answer["terms"]
    assert sum(size for name, size in terms.items() if name != "marginBytes") == answer["expectedBytes"]
    assert answer["bandBytes"]["high"] - answer["expectedBytes"] == terms["marginBytes"]
    low, expected, high = (answer["kvCapacityTokens"][edge] for edge in ("low", "expected", "high"))
    assert low < expected < high


def test_the_working_is_told_in_words_and_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [LLAMA_8B, "--gpu", H100, "--why"]).shown
    assert "32 layers x 14,336 x 4,096 x 16 bit " in shown
    answer = one(capsys, LLAMA_8B, "--gpu", H100, "--why")
    told = {step["term"]: step["bytes"] for step in answer["working"] if step["total"]}
    assert told["weights"] == answer["terms"]["weightsBytes"]


def manifest(folder: Path, **spec: Any) -> str:
    """A file with the smallest example, changed."""
    body = yaml.safe_load(EXAMPLE.read_text())
    body["spec"] |= spec
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(body))
    return str(path)


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        ("70Gi", "It fits, needed 70.00 GiB by override (spec.overrides.memoryPerGpu)"),
        ("79Gi", "It does not fit, needed 79.00 GiB by override (spec.overrides.memoryPerGpu)"),
    ],
)
def test_an_override_of_the_need_decides_and_says_so(
    figure: str, verdict: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    forced = manifest(tmp_path, overrides={"memoryPerGpu": figure})
    shown = Ran(capsys, [forced, "--gpu", H100]).shown
    assert verdict in shown
    assert "By the memory law it fits for sure." in shown
    assert "By the memory law, without the override:" in shown
    assert f"Warning: memoryPerGpu {figure[:2]}.00 GiB replaces the computed" in shown
    told, plain = (one(capsys, source, "--gpu", H100) for source in (forced, str(EXAMPLE)))
    assert told["overrideBytes"] == int(figure[:2]) * GIB
    assert (told["fit"], told["fitByLaw"]) == ("Sure" if figure == "70Gi" else "No", "Sure")
    assert told["inverse"] == plain["inverse"]
    assert "overrideBytes" not in plain


def test_a_search_that_ends_at_its_bound_says_or_more(capsys: pytest.CaptureFixture[str]) -> None:
    words = (str(CONFIGS / "Qwen__Qwen2.5-0.5B.json"), "--gpu", H100, "--concurrency", "1", "--context-length", "16")
    shown = Ran(capsys, words).shown
    assert "Longest context for 1 request: 32,768 tokens or more (the model declares 32,768)." in shown
    assert "Most requests of 16 tokens: 65,536 or more." in shown
    found = one(capsys, *words)["inverse"]
    assert found["longestContext"] == {"value": 32_768, "orMore": True, "beyondDeclared": False}
    assert found["mostSequences"] == {"value": 65_536, "orMore": True}
    assert one(capsys, LLAMA_8B, "--gpu", H100)["inverse"]["mostSequences"]["orMore"] is False


def test_a_context_beyond_the_model_s_is_never_shown_without_a_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    longer = ("--gpu", H100, "--concurrency", "1", "--context-length", "40000")
    assert "write at most 32768" in Ran(capsys, (str(CONFIGS / "Qwen__Qwen2.5-0.5B.json"), *longer)).error
    body = yaml.safe_load(EXAMPLE.read_text())
    body["spec"]["model"] = {"name": "Qwen/Qwen2.5-0.5B", "config": config_of("Qwen__Qwen2.5-0.5B")}
    body["spec"]["engine"] = {"extraArgs": ["--hf-overrides={}"]}
    (tmp_path / "scaled.yaml").write_text(yaml.safe_dump(body))
    words = (str(tmp_path / "scaled.yaml"), *longer)
    shown = Ran(capsys, words).shown
    assert "40,000 tokens or more, beyond the 32,768 that the model declares." in shown
    assert "Warning: contextLength 40000 exceeds the 32768 tokens" in shown
    assert one(capsys, *words)["inverse"]["longestContext"]["beyondDeclared"] is True


def test_what_would_make_it_fit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LLAMA_8B, "--gpu", L4, "--tp", "1"]
    shown = Ran(capsys, [*words, "--context-length", "8192"]).shown
    assert "Any one of these would make it fit for sure:" in shown
    context, requests = re.search(r"--context-length (\d+)", shown), re.search(r"--concurrency (\d+)", shown)
    assert context is not None
    assert requests is not None
    assert one(capsys, *words, "--context-length", context[1])["fit"] == "Sure"
    assert one(capsys, *words, "--concurrency", requests[1])["fit"] == "Sure"


def test_types_that_a_manifest_rules_out_are_left_out_with_a_word(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = Ran(capsys, [manifest(tmp_path, gpu={"deny": [L4]})]).shown
    assert f"Note: {L4} left out by spec.gpu.deny." in shown
    assert shown.count(L4) == 1
    shown = Ran(capsys, [manifest(tmp_path, gpu={"allow": [H100, "h1000"]}), "--why"]).shown
    assert "GPU types left out by spec.gpu.allow." in shown
    assert "spec.gpu names h1000, which `plimsoll gpus` does not list." in shown
    assert "Longest context" in shown
    denied = one(capsys, manifest(tmp_path, gpu={"deny": [L4]}), "--gpu", L4)
    assert (denied["fit"], denied["reason"], denied["message"]) == ("No", "GpuTypeDenied", "ruled out by spec.gpu.deny")


def test_a_manifest_s_most_gpus_bound_the_split(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bounded = manifest(tmp_path, gpu={"maxPerReplica": 1}, contextLength=65_536, concurrency=16)
    assert one(capsys, bounded, "--gpu", L4)["tensorParallel"] == 1
    assert one(capsys, bounded, "--gpu", L4, "--tp", "2")["reason"] == "TooManyGpusPerReplica"


def test_the_command_line_sets_a_manifest_s_overrides_aside_and_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    forced = manifest(tmp_path, overrides={"gpuType": L4, "tensorParallel": 2})
    assert "Warning: GPU type and split were forced" in Ran(capsys, [forced]).shown
    answer = one(capsys, forced, "--gpu", H100, "--tp", "1")
    assert (answer["gpuType"], answer["tensorParallel"]) == (H100, 1)
    assert [note.partition(" is set aside")[0] for note in answer["notes"]] == [
        f"spec.overrides.gpuType {L4}",
        "spec.overrides.tensorParallel 2",
    ]


def test_mean_lengths_outweigh_a_manifest_s_sizing_and_that_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    guaranteed = manifest(tmp_path, sizing="Guaranteed", contextLength=4096, concurrency=100)
    words = (guaranteed, "--gpu", H100, "--prompt", "300", "--output-tokens", "100")
    assert one(capsys, *words)["kvNeededTokens"] == 15 * 100 * 400 // 10
    assert "Note: --prompt and --output-tokens size for the expected load" in Ran(capsys, words).shown
    assert one(capsys, guaranteed, "--gpu", H100)["kvNeededTokens"] == 100 * 4096


MEANS = ("--prompt", "1000", "--output-tokens", "500", "--against-price", "0.5,1.5")


@pytest.mark.parametrize(
    ("day", "way"),
    [
        pytest.param(("240",), "Api", id="ten requests an hour"),
        pytest.param(("100000",), "Dedicated", id="all day"),
        pytest.param(("40000", "--busy-hours", "8"), "ScaleToZero", id="eight hours of a day"),
    ],
)
def test_an_api_a_card_that_always_runs_and_scale_to_zero_are_compared(
    day: tuple[str, ...], way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (LLAMA_8B, "--gpu", H100, *MEANS, "--requests-per-day", *day)
    answer = one(capsys, *words)
    found, speed = answer["api"], answer["performance"]
    assert found["usdPerRequest"] == pytest.approx(0.00125)
    assert found["mostRequestsPerDay"] == pytest.approx(
        speed["outputTokensPerSecond"] / 500 * 3600 * int(day[-1] if len(day) > 1 else 24)
    )
    assert found["usdPerDay"]["Api"] == pytest.approx(int(day[0]) * 0.00125)
    assert found["usdPerDay"]["Dedicated"] == pytest.approx(24 * answer["hourlyPrice"])
    assert found["cheapest"] == way
    assert found["usdPerDay"][way] <= min(found["usdPerDay"].values()) / 0.9
    shown = " ".join(Ran(capsys, words).shown.split())
    assert f"${24 * answer['hourlyPrice']:.2f} for a replica that always runs." in shown
    assert ("if that wait is bearable; else" in shown) is (way == "ScaleToZero")


def test_every_type_that_fits_has_its_break_even_use(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LLAMA_8B, *MEANS[:-1], "0.05,0.2"]
    answers = Ran(capsys, [*words, "-o", "json"]).answers()
    found = [each["api"]["paysFromRequestsPerDay"] for each in answers if each["api"] is not None]
    assert len(found) == sum(None not in (each["performance"], each["hourlyPrice"]) for each in answers)
    assert any(each["Dedicated"] is None for each in found), "a dear card never pays"
    assert any(each["Dedicated"] is not None and 1 < each["ScaleToZero"] <= each["Dedicated"] for each in found)
    shown = Ran(capsys, words).shown
    assert "PAYS FROM/DAY" in shown
    assert "ALWAYS $/DAY" not in shown
    assert "api" not in one(capsys, LLAMA_8B, "--gpu", H100)


@pytest.mark.parametrize(
    ("price", "pays"),
    [("1.5,3", {"Dedicated", "ScaleToZero"}), ("0.2,0.6", {"ScaleToZero"}), ("0.05,0.2", set[str]())],
)
def test_only_what_never_pays_is_said_to_never_pay(
    price: str, pays: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = (LLAMA_8B, "--gpu", H100, *MEANS[:-1], price, "--busy-hours", "8")
    found = one(capsys, *words)["api"]["paysFromRequestsPerDay"]
    assert {way for way, least in found.items() if least is not None} == pays
    shown = " ".join(Ran(capsys, words).shown.split())
    assert ("A replica never pays" in shown) is not bool(pays)
    assert ("always runs never pays" in shown) is (pays == {"ScaleToZero"})
    assert all(f" {found[way]:,}" in shown for way in pays)


def test_start_up_and_idle_time_are_those_of_the_command_and_the_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    usual = one(capsys, LLAMA_8B, "--gpu", H100, *MEANS)["api"]
    assert (usual["startupSeconds"], usual["idleSeconds"]) == (300, 1800)
    source = manifest(tmp_path, contextLength=4096, rebalancing={"idleSeconds": 600})
    own = one(capsys, source, "--gpu", H100, *MEANS, "--startup", "90")["api"]
    assert (own["startupSeconds"], own["idleSeconds"]) == (90, 600)


def test_a_command_is_compared_at_the_lengths_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("--", "vllm", "serve", LLAMA_8B, "--max-model-len", "4096")
    many = ("--gpu", H100, "--concurrency", "16")
    plain, found = (one(capsys, *many, *more, "-o", "json", *command) for more in ((), MEANS))
    assert found["kvNeededTokens"] == plain["kvNeededTokens"]
    assert found["api"]["usdPerRequest"] == pytest.approx(0.00125)
    prefixed = one(capsys, *many, *MEANS, "--shared-prefix", "800", "-o", "json", *command)
    assert prefixed["kvNeededTokens"] == plain["kvNeededTokens"]
    assert prefixed["performance"]["ttftSeconds"]["expected"] < found["performance"]["ttftSeconds"]["expected"]
    refused = Ran(capsys, ["--gpu", H100, "--prompt", "4000", "--output-tokens", "97", *command])
    assert "--prompt: 4000 cannot be used. With --output-tokens it exceeds the context of the command" in refused.error


def test_a_manifest_has_the_prefix_and_not_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    words = [LLAMA_8B, *MEANS, "--shared-prefix", "600", "--shared-percent", "80", "-o", "manifest"]
    command_line.cli.main(["estimate", *words], standalone_mode=False)
    shown = capsys.readouterr()
    assert yaml.safe_load(shown.out)["spec"]["workload"] == {"sharedPrefix": {"tokens": 600, "requestsPercent": 80}}
    assert "A manifest does not compare with an API: --against-price is left out." in shown.err


def test_a_shared_prefix_makes_the_expected_cache_smaller_and_nothing_sure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (LLAMA_8B, "--gpu", L4, "--tp", "1", "--precision", "fp8", "--concurrency", "64", *MEANS[:4])
    plain, shared, half = (
        one(capsys, *words, *more)
        for more in ((), ("--shared-prefix", "800"), ("--shared-prefix", "800", "--shared-percent", "50"))
    )
    assert (plain["fit"], shared["fit"]) == ("No", "Probable")
    assert shared["kvCache"]["sharedBytes"] == 63 * 800 * 131_072
    assert half["kvCache"]["sharedBytes"] == 31 * 800 * 131_072
    assert shared["expectedBytes"] == plain["expectedBytes"] - 63 * 800 * 131_072
    assert shared["bandBytes"]["high"] == plain["bandBytes"]["high"]
    shown = Ran(capsys, [*words, "--shared-prefix", "800", "--why"]).shown
    expected = f"With the prefix that they share, {shared['kvCache']['bytes'] / 2**30:.2f} GiB are expected."
    assert expected in " ".join(shown.split())
    assert "- 50,400 tokens of prefixes that requests share" in shown


@pytest.mark.parametrize("figure", ["0Gi", "0.0G", "0.0000001Mi", "-5Gi"])
def test_no_need_at_all_is_refused(figure: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = Ran(capsys, [manifest(tmp_path, overrides={"memoryPerGpu": figure}), "--gpu", H100])
    assert ran.status == 2
    assert ran.error.startswith(f"spec.overrides.memoryPerGpu: '{figure}' cannot be used. ")
    assert "e.g. 70Gi" in ran.error


def test_a_hub_that_does_not_answer_leaves_ways_out(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, ["nobody/nothing"])
    assert ran.status == 2
    assert "nobody/nothing" in ran.error
    assert "give the model's config.json instead" in ran.error


BAD: dict[str, tuple[list[str], str]] = {
    "a GPU nobody knows": (
        [LLAMA_8B, "--gpu", "h1000"],
        "--gpu: 'h1000' cannot be used. There is no such GPU type; did you mean h100-",
    ),
    "a file that is not there": (["nowhere/config.json"], "MODEL: 'nowhere/config.json' cannot be used."),
    "a GPU by half its name": (
        [LLAMA_8B, "--gpu", "RTX PRO"],
        "did you mean rtx-pro-4000-24gb, rtx-pro-4500-32gb or rtx-pro-5000-48gb?",
    ),
    "no name": ([""], "MODEL: '' cannot be used. Name a model (owner/name), the folder"),
    "blanks": (["  "], "MODEL: '  ' cannot be used. Name a model"),
    "a missing .json": (["nowhere.json"], "MODEL: 'nowhere.json' cannot be used. There is no such file. Name a model"),
    "a draft that is not there": (
        [LLAMA_8B, "--speculate", "Draft", "2", "--draft", "no.json"],
        "--draft: 'no.json' cannot be used. There is no such file.",
    ),
    "more context than any": ([LLAMA_8B, "--context-length", "999999999999"], "spec.contextLength: 999999999999"),
    "the other half": (
        [LLAMA_8B, "--output-tokens", "5"],
        "--output-tokens: 5 cannot be used. Name --prompt and --output-tokens.",
    ),
    "half of a mean": ([LLAMA_8B, "--prompt", "5"], "--prompt: 5 cannot be used. Name --prompt and --output-tokens."),
    "an API without lengths": (
        [LLAMA_8B, "--against-price", "0.15,0.6"],
        "--against-price: '0.15,0.6' cannot be used. Name --prompt and --output-tokens, the mean lengths",
    ),
    **{
        f"the price {price}": (
            [LLAMA_8B, "--prompt", "9", "--output-tokens", "9", "--against-price", price],
            f"--against-price: '{price}' cannot be used. Write US dollars for a million prompt tokens",
        )
        for price in ("0.15", "1,2,3", "nan,1", "-1,2", "0,0", "inf,1", "a,b")
    },
    **{
        f"{option} without an API": (
            [LLAMA_8B, option, "5"],
            f"{option}: 5{'.0' if option == '--startup' else ''} cannot be used. Name --against-price as well",
        )
        for option in ("--requests-per-day", "--busy-hours", "--startup")
    },
    "a start of no time": (
        [LLAMA_8B, "--prompt", "9", "--output-tokens", "9", "--against-price", "1,2", "--startup", "nan"],
        "--startup: nan cannot be used. Write seconds, more than 0 and 86,400 at most.",
    ),
    "a prefix as long as the prompt": (
        [LLAMA_8B, "--prompt", "900", "--output-tokens", "9", "--shared-prefix", "900"],
        "spec.workload.sharedPrefix.tokens: 900 cannot be used. Write less than the 900 of expectedTokens.prompt",
    ),
    "a prefix of nothing": ([LLAMA_8B, "--shared-prefix", "0"], "spec.workload.sharedPrefix.tokens: 0 cannot be used."),
    "a share of no prefix": (
        [LLAMA_8B, "--shared-percent", "50"],
        "--shared-percent: 50 cannot be used. Name --shared-prefix as well.",
    ),
    "a command's prefix without lengths": (
        ["--gpu", H100, "--shared-prefix", "50", "--", "vllm", "serve", LLAMA_8B],
        "--shared-prefix: 50 cannot be used. Write 1 or more and less than --prompt, and name that and --output-tokens",
    ),
    "stages without a degree": ([LLAMA_8B, "--pp", "2"], "--pp: 2 cannot be used. Name --tp as well."),
    "engines without a degree": ([LLAMA_8B, "--dp", "2"], "--dp: 2 cannot be used. Name --tp as well."),
    "experts without a degree": ([LLAMA_8B, "--ep"], "--ep: True cannot be used. Name --tp as well."),
    "why of many": ([LLAMA_8B, "--why"], "Name one GPU type with --gpu."),
    "a precision nobody knows": ([LLAMA_8B, "--precision", "fp7"], "spec.precision"),
    "a precision that was not published": ([LLAMA_8B, "--precision", "awq"], "spec.precision: 'awq' cannot be used."),
    "an old engine": ([LLAMA_8B, "--engine", "0.1.0"], "spec.engine.version: '0.1.0' cannot be used."),
    "a rank that vLLM does not know": (
        [LLAMA_8B, "--lora", "1", "24"],
        "spec.engine.lora.maxRank: 24 cannot be used. Write one of 1, 8, 16,",
    ),
    "no slot": ([LLAMA_8B, "--lora", "0", "8"], "spec.engine.lora.maxAdapters"),
    "bytes without a unit": ([LLAMA_8B, "--cpu-offload", "8"], "spec.engine.cpuOffload"),
    "adapters that the class has not": (
        [str(CONFIGS / "moonshotai__Kimi-K2.5.json"), "--lora", "1", "8"],
        "spec.engine.lora: 'KimiK25ForConditionalGeneration' cannot be used.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_named_with_value_and_fix(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, expected = BAD[case]
    ran = Ran(capsys, words)
    assert ran.status == 2, ran.shown
    assert expected in ran.error
    assert ran.shown == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.json", "[1, 2]"),
        ("broken.json", "{"),
        ("broken.yaml", "a: [b"),
        ("text.json", '"x"'),
        ("digits.json", "9" * 5000),
        ("spec.yaml", "kind: InferenceDeployment\nmetadata: [1]\nspec: nothing\n"),
        ("engine.yaml", "kind: InferenceDeployment\nmetadata: {name: x}\nspec: {engine: [1]}\n"),
        ("empty.json", "{}"),
        ("empty.yaml", ""),
        ("two.yaml", "a: 1\n---\nb: 2\n"),
        (
            "misspelt.yaml",
            "apiVersion: plimsoll.dev/v1alpha1\nkind: InferenceDeployment\nmetadata: {name: x}\nspec: {a: 1}\n",
        ),
    ],
)
def test_files_that_are_no_model_are_refused(
    name: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    ran = Ran(capsys, [str(tmp_path / name), "--gpu", H100])
    assert ran.status == 2
    assert "cannot be used" in ran.error or "a value is missing" in ran.error


def figures(kind: str = H100, context: int = 4096, concurrency: int = 8) -> MemoryEstimate:
    wanted = request(context=context, concurrency=concurrency)
    return estimate(wanted, gpu(kind), Split(1), engine_settings(wanted, gpu(kind), Split(1)))


@every_case("kind", [H100, L4, "t4-16gb", "b200-sxm-180gb"])
@every_case("concurrency", [1, 8, 64, 4096])
def test_a_bar_is_as_wide_as_the_gpu_and_its_letters_come_in_order(kind: str, concurrency: int) -> None:
    found = figures(kind, concurrency=concurrency)
    plain = budget_bar(found).plain
    assert len(plain) == BAR_CELLS
    assert plain.count("|") == 1
    beyond = found.computed_bytes > found.usable_bytes
    assert plain.endswith("!") is beyond
    letters = [LETTERS.index(letter) for letter in plain if letter not in "|!"]
    assert letters == sorted(letters)


def test_a_bar_of_a_term_below_zero_keeps_its_width() -> None:
    corrected = MemoryEstimate(
        terms=terms_of(weights=30 * GIB, kv_cache=10 * GIB, activations=GIB, cuda_graphs=GIB, overhead=-9 * GIB),
        margin_bytes=GIB,
        outside_bytes=0,
        usable_bytes=80 * GIB,
        budget_bytes=72 * GIB,
        kv_bytes_per_token=1,
        kv_needed_tokens=1,
        kv_capacity_tokens=1,
    )
    assert len(budget_bar(corrected).plain) == BAR_CELLS


def test_a_verdict_names_what_is_lacking_outside_the_budget() -> None:
    found = figures(H100)
    left = found.usable_bytes - found.budget_bytes
    short = verdict(replace(found, outside_bytes=left + GIB))
    assert short.startswith("It fits only probably: the engine may use 72.82 GiB, which leaves 6.33 GiB outside it,")
    assert short.endswith("may take 7.33 GiB: lower --utilization.")
    assert verdict(replace(found, outside_bytes=left)) == "It fits for sure: the engine may use 72.82 GiB."


def test_doubts_are_codes_with_sentences_and_a_release_with_the_class_has_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doubtful = one(capsys, str(QWEN), "--gpu", H100, "--engine", "0.8.3")
    assert (doubtful["fit"], [doubt["code"] for doubt in doubtful["doubts"]]) == ("Probable", ["TransformersBackend"])
    assert doubtful["doubts"][0]["message"] in doubtful["warnings"]
    sure = one(capsys, str(QWEN), "--gpu", H100, "--engine", "0.8.4")
    assert (sure["fit"], sure["doubts"]) == ("Sure", [])


def test_a_release_without_the_class_is_an_error_with_the_release_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, ["openai/gpt-oss-20b", "--gpu", H100, "--engine", "0.9.2"])
    assert ran.status == EXIT_BAD_INPUT
    assert "lacks the model class GptOssForCausalLM: use 0.10.1 or newer" in ran.error
    assert Ran(capsys, ["openai/gpt-oss-20b", "--gpu", H100, "--engine", "0.10.1"]).status == 0
