"""The calculator has the figures of ``plimsoll estimate``, and what it gives to copy has them too."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
import yaml
from click.testing import CliRunner

from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.api.conversion.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.cli.main import cli
from plimsoll.console.alone import document, page
from plimsoll.console.pages.plain import calculator as handler
from plimsoll.console.rendering import rendered
from plimsoll.console.views.calculator.page import Calculator, calculator_of
from plimsoll.console.views.calculator.rows import Shelf
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage, Visit
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.registry import ENGINES
from tests.support.console_pages import chat, page_of, world_of
from tests.support.proposals import read_html
from tests.support.tables import every_case
from tests.support.toy_engine import ABACUS

pytestmark = pytest.mark.lengthy

MODEL = "Qwen/Qwen3-8B"
GPU = "h100-sxm-80gb"
SHAPES = ("deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b", "Qwen/Qwen2.5-VL-7B-Instruct")

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}

OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"context-length": "4096", "concurrency": "3"},
    {"precision": "fp8", "kv-precision": "fp8", "eager": "1"},
    {"tp": "2", "pp": "2"},
    {"tp": "2", "ep": "1", "text-only": "1"},
    {"prompt": "900", "output-tokens": "100"},
    {"prompt": "900", "output-tokens": "100", "shared-prefix": "600", "shared-percent": "80"},
    {"cpu-offload": "4Gi", "utilization": "85", "batched-tokens": "4096"},
    {"host-memory": "64Gi", "kv-precision": "fp8"},
    {"lora": "4 16"},
    {"speculate": "ngram 4", "engine": "0.30.0"},
    {"engine": "vllm:0.30.0"},
    {
        "prompt": "900",
        "output-tokens": "100",
        "against-price": "0.5,1.5",
        "requests-per-day": "9000",
        "busy-hours": "8",
        "startup": "90",
    },
    {"speculate": "Draft 3", "draft": "Qwen/Qwen3-0.6B"},
    {"against-engine": "sglang"},
    {"engine": "sglang:0.5.22", "against-engine": "vllm:0.31.0"},
)


def printed(words: list[str]) -> str:
    """Return the output of the command."""
    ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def seen(**query: str) -> Calculator:
    return calculator_of({key.replace("_", "-"): (value,) for key, value in query.items()})


def asked(options: dict[str, str], gpu: str = GPU, model: str = MODEL) -> dict[str, str]:
    return {"model": model, "gpu": gpu, **options}


@every_case("options", OPTIONS, ids=str)
def test_the_copied_command_prints_the_figures_of_the_page(options: dict[str, str]) -> None:
    query = asked(options)
    answer = calculator_of({key: (value,) for key, value in query.items()}).answer
    assert answer is not None
    program, *words = shlex.split(answer.command)
    assert program == "plimsoll"
    assert printed([*words, "-o", "json"]) == document(urlencode(query))


@every_case("model", [MODEL, *SHAPES])
@every_case("gpu", ["", "l4-24gb", "NVIDIA A100-SXM4-80GB"], ids=lambda gpu: gpu or "all")
def test_every_figure_is_that_of_the_command(model: str, gpu: str) -> None:
    query = asked({}, gpu, model)
    text = printed(["estimate", model, *(["--gpu", gpu] if gpu else []), "-o", "json"])
    assert document(urlencode(query)) == text
    answer = calculator_of({key: (value,) for key, value in query.items()}).answer
    assert answer is not None
    figures = [each for each in json.loads(text)["answers"] if "terms" in each]
    rows = [row for row in answer.rows if row.figures is not None]
    for row, wanted in zip(rows, figures, strict=True):
        assert row.figures is not None
        assert (row.gpu, row.figures.budget) == (wanted["gpuType"], wanted["budgetBytes"])
        assert (row.figures.expected, row.figures.upper) == (wanted["expectedBytes"], wanted["bandBytes"]["high"])
        assert (
            row.price is None
            if wanted["hourlyPrice"] is None
            else float(row.price or 0) == pytest.approx(wanted["hourlyPrice"], abs=0.0051)
        )


def test_a_pasted_configuration_is_asked_about_as_the_command_does_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    query = {"model": "house-model", "config": json.dumps(LLAMA_8B), "gpu": GPU, "lora": "2 8"}
    for each in (query, {**query, "lora": ""}):
        answer = calculator_of({key: (value,) for key, value in each.items()}).answer
        assert answer is not None
        assert answer.file == "house-model.json"
        Path(answer.file).write_text(each["config"], "utf-8")
        words = shlex.split(answer.command)[1:]
        assert printed([*words, "-o", "json"]) == document(urlencode(each))


def test_another_engine_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, ABACUS.name, ABACUS)
    toy, usual = (seen(**asked(more)).answer for more in ({"engine": "abacus:2.1"}, {}))
    assert toy is not None
    assert usual is not None
    assert "--engine abacus:2.1" in toy.command
    assert "name: abacus" in toy.manifest
    expected = [row.figures.expected for each in (toy, usual) for row in each.rows if row.figures is not None]
    assert expected[0] < expected[1]


def test_a_name_is_never_read_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret.json").write_text(json.dumps(LLAMA_8B), "utf-8")
    for name in ("secret.json", str(tmp_path / "secret.json"), str(tmp_path), "/etc/passwd"):
        found = seen(model=name)
        assert found.answer is None
        assert found.fault is not None
        assert found.fault.field == "model"


@every_case("options", [each for each in OPTIONS if "pp" not in each and "ep" not in each], ids=str)
def test_the_manifest_is_accepted_and_asks_for_the_same_load(options: dict[str, str]) -> None:
    answer = calculator_of({key: (value,) for key, value in asked(options).items()}).answer
    assert answer is not None
    resource = parse_inference_deployment(yaml.safe_load(answer.manifest))
    facts, draft = load_model_facts(MODEL), load_model_facts(options.get("draft", ""))
    assert facts is not None
    request = to_request(resource, facts, draft=draft)
    assert request.shape.context_tokens == int(options.get("context-length", 8192))
    assert request.shape.concurrency == int(options.get("concurrency", 16))
    assert request.constraints.allow == (GPU,)
    assert request.overrides.tensor_parallel == (int(options["tp"]) if "tp" in options else None)
    assert (request.engine.lora is not None) == ("lora" in options)
    assert (request.engine.residency is not None) == ("cpu-offload" in options)
    assert (request.engine.host.kv_bytes > 0) == ("host-memory" in options)
    assert (request.engine.speculation is not None) == ("speculate" in options)
    assert request.shape.expected_tokens == (1000 if "prompt" in options else None)


def test_a_pasted_configuration_stands_in_the_manifest() -> None:
    answer = seen(model="own", config=json.dumps({**LLAMA_8B, "note": "yes: \u00e9 #"})).answer
    assert answer is not None
    read = parse_inference_deployment(yaml.safe_load(answer.manifest))
    assert read.spec.model.config == {**LLAMA_8B, "note": "yes: \u00e9 #"}


@every_case(
    ("query", "field", "words"),
    [
        ({"tp": "0"}, "tp", "Tensor parallel: '0' cannot be used. Write a whole number from 1 to 64."),
        ({"utilization": "99"}, "utilization", "Utilization: '99' cannot be used. Write a whole number from 10 to 98."),
        (
            {"context-length": "many"},
            "context-length",
            "Context: 'many' cannot be used. Write a whole",
        ),
        ({"pp": "2"}, "pp", "Pipeline stages: 2 cannot be used. Name \u201cTensor parallel\u201d as well."),
        ({"ep": "1"}, "ep", "Expert parallelism: True cannot be used. Name \u201cTensor parallel\u201d as well."),
        ({"lora": "4"}, "lora", "LoRA: '4' cannot be used. Write the slots and their largest rank, e.g. 4 16."),
        ({"speculate": "Guess 4"}, "speculate", "Speculation: 'Guess 4' cannot be used. Write a method"),
        ({"draft": "Qwen/Qwen3-0.6B"}, "draft", "Draft model: 'Qwen/Qwen3-0.6B' cannot be used. Say how it drafts"),
        ({"prompt": "10"}, "prompt", "10 cannot be used. Name \u201cMean prompt\u201d and \u201cMean output\u201d."),
        (
            {"against-price": "1,2"},
            "against-price",
            "Price of an API: '1,2' cannot be used. Name \u201cMean prompt\u201d",
        ),
        ({"shared-prefix": "99999"}, "shared-prefix", "Shared prefix: 99999 cannot be used. Write less than the 8192"),
        ({"busy-hours": "25"}, "busy-hours", "Busy hours: '25' cannot be used. Write a whole number from 1 to 24."),
        ({"gpu": "h1000"}, "gpu", "GPU: 'h1000' cannot be used. There is no such GPU type"),
        ({"model": "Qwen/Qwen3-8C"}, "model", "Did you mean Qwen/Qwen3-8B"),
        ({"precision": "half"}, "precision", "Weights: 'half' cannot be used."),
        ({"engine": "0.1.0"}, "engine", "Engine: '0.1.0' cannot be used."),
        ({"config": "{"}, "config", "config.json: '{' cannot be used. Paste one config.json"),
        ({"config": "{}", "model": "a/b"}, "model", "Model: 'a/b' cannot be used."),
        ({"lora": "4 7"}, "lora", "LoRA: 7 cannot be used."),
    ],
    ids=str,
)
def test_a_fault_stands_at_its_field_and_says_what_to_write(query: dict[str, str], field: str, words: str) -> None:
    asked = {key: (value,) for key, value in {"model": MODEL, **query}.items()}
    found = calculator_of(asked)
    assert found.answer is None
    assert found.fault is not None
    assert found.fault.field == field
    assert words in found.fault.words
    assert "--" not in found.fault.words
    shown = read_html(page(urlencode({"model": MODEL, **query})))
    (marked,) = [each for _, each in shown.elements if each.get("aria-invalid")]
    assert marked["name"] == field
    assert (marked["aria-describedby"] or "").split()[0] == f"e-{field}"
    assert [each["id"] for each in shown.all("span") if each.get("class") == "error"] == [f"e-{field}"]
    assert calculator_of({"model": (MODEL,), "gpu": (GPU,)}).fault is None


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@every_case(
    "field", ["model", "config", "gpu", "context-length", "precision", "engine", "draft", "cpu-offload", "host-memory"]
)
def test_a_hostile_value_stays_text(field: str) -> None:
    shown = page(urlencode({"model": MODEL, field: HOSTILE}))
    assert "<script" not in shown
    assert "<img" not in shown
    assert HOSTILE in unescape(shown)


def test_hostile_names_in_a_configuration_stay_text() -> None:
    config = {**LLAMA_8B, "architectures": [HOSTILE], "torch_dtype": HOSTILE, "x": HOSTILE}
    shown = page(urlencode({"config": json.dumps(config)}))
    assert "<script" not in shown
    assert "<img" not in shown


def test_what_few_servers_have_and_what_has_no_price_or_no_estimate_is_folded() -> None:
    answer = seen(model=MODEL).answer
    assert answer is not None
    assert {row.shelf for row in answer.rows} == set(Shelf)
    sold = {gpu.name for gpu in load_gpu_types() if gpu.is_for_servers}
    priced = {gpu.name for gpu in load_gpu_types() if gpu.price is not None}
    assert all(row.gpu in sold and row.gpu in priced for row in answer.on("shown"))
    assert all(row.gpu not in sold and row.gpu in priced for row in answer.on("rare"))
    assert all(row.gpu not in priced for row in answer.on("unpriced"))
    assert all(row.figures is None and row.code for row in answer.on("impossible"))
    assert "h100-sxm-80gb" in [row.gpu for row in answer.on("shown")]


def test_the_types_of_the_cluster_are_shown_first_whatever_they_are() -> None:
    owned = ("jetson-agx-orin-64gb", "rtx-4090-24gb", "h20-141gb")
    answer = calculator_of({"model": [MODEL]}, frozenset(owned)).answer
    assert answer is not None
    assert [row.gpu for row in answer.on("shown")[:3]] == ["rtx-4090-24gb", "h20-141gb", "jetson-agx-orin-64gb"]
    assert [row.is_owned for row in answer.on("shown")[:4]] == [True, True, True, False]


def test_lists_to_choose_from_have_the_order_of_the_answers_and_slices_last() -> None:
    types = calculator_of({}, frozenset({"t4-16gb"})).form.types
    places = [types.index(name) for name in ("t4-16gb", "a10-24gb", "mi300x-192gb", "rtx-3090-24gb", "h20-96gb")]
    assert places == sorted(places)
    assert places[0] == 0
    slices = [index for index, name in enumerate(types) if "-mig-" in name]
    assert slices == list(range(len(types) - len(slices), len(types)))


def test_a_type_that_is_named_is_shown_whatever_it_is() -> None:
    answer = calculator_of({"model": [MODEL], "gpu": ["rtx-4090-24gb", "h20-141gb"]}).answer
    assert answer is not None
    assert {row.shelf for row in answer.rows} == {Shelf.SHOWN}


async def test_the_calculator_of_a_cluster_begins_with_its_types() -> None:
    shown = await page_of("/calculator", world_of(), query={"model": (MODEL,)})
    rows = [shown.text.index(f"{gpu} \u00d7") for gpu in ("l4-24gb", "h100-sxm-80gb", "rtx-a6000-48gb")]
    assert rows == sorted(rows)
    assert shown.text.count("in this cluster") == 2
    without_nodes = replace(world_of(chat()), fleet=None)
    shown = await page_of("/calculator", without_nodes, query={"model": (MODEL,)})
    assert shown.text.count("in this cluster") == 1


def test_one_type_has_its_formulas_and_many_have_none() -> None:
    one, all_types = seen(model=MODEL, gpu=GPU).answer, seen(model=MODEL).answer
    assert one is not None
    assert all_types is not None
    assert one.detail is not None
    assert sum(step.size_bytes or 0 for step in one.detail.steps if step.label == "needed") > 0
    assert all_types.detail is None
    assert all_types.advice is not None
    assert all_types.advice.startswith("Cheapest that is common in servers: ")


def test_nothing_is_computed_before_a_model_is_named() -> None:
    found = seen(gpu=GPU)
    assert (found.answer, found.fault) == (None, None)
    assert found.form.gpus == (GPU,)


def test_an_api_is_compared_in_each_row_and_in_the_sentences_of_one_type() -> None:
    means = {"prompt": "900", "output-tokens": "100", "against-price": "0.5,1.5", "requests-per-day": "9000"}
    usual = {"model": MODEL, **means}
    many, one = page(urlencode(usual)), page(urlencode({**usual, "gpu": GPU}))
    assert "requests a day; cheapest: " in many
    assert "9,000 requests a day in 24 hours: $5.40 a day at the API" in one
    assert "requests a day" not in page(urlencode({"model": MODEL, "gpu": GPU}))


def test_two_engines_are_compared_in_each_row_and_in_the_sentences_of_one_type() -> None:
    many = page(urlencode({"model": MODEL, "against-engine": "sglang"}))
    one = page(urlencode({"model": MODEL, "gpu": GPU, "against-engine": "sglang"}))
    assert '<span class="under">SGLang 0.5.23: ' in many
    assert "vLLM 0.32.0 on h100-sxm-80gb x " in one
    assert "SGLang 0.5.23 on h100-sxm-80gb x " in one
    assert "SGLang" not in page(urlencode({"model": MODEL, "gpu": GPU})).partition("<h2")[2]
    refused = page(urlencode({"model": MODEL, "gpu": GPU, "against-engine": "sglang", "cpu-offload": "1Gi"}))
    assert "SGLang is not compared: " in refused
    lawless = {"model": "deepseek-ai/DeepSeek-V4-Flash", "gpu": "h200-sxm-141gb", "against-engine": "sglang"}
    assert "SGLang is not compared: " in page(urlencode(lawless))
    assert "Name another engine than vLLM" in page(urlencode({**lawless, "engine": "auto", "against-engine": "vllm"}))
    wrong = seen(model=MODEL, gpu=GPU, against_engine="abacus").fault
    assert wrong is not None
    assert wrong.field == "against-engine"


async def test_the_console_shows_what_the_static_page_shows() -> None:
    query = {"model": (MODEL,), "gpu": (GPU,)}
    visit = cast("Visit", SimpleNamespace(path="/calculator", query=query, world=ClusterView()))
    found = await handler(visit)
    assert isinstance(found, ConsolePage)
    assert not found.is_live
    values: dict[str, Any] = {**found.values, "action": ""}
    assert rendered("calculator_main.html", **values) == page(urlencode({"model": MODEL, "gpu": GPU}))


def test_a_document_of_a_faulty_question_is_an_error() -> None:
    with pytest.raises(InvalidInput):
        document("?model=nobody/none")
    assert json.loads(document(f"?model={MODEL}&gpu={GPU}"))["answers"][0]["gpuType"] == GPU


def test_a_gpu_of_several_sizes_gets_a_note_on_the_page_and_in_the_document() -> None:
    several, one = (f"model={MODEL}&gpu={gpu}" for gpu in ("A100", "a100-pcie-40gb"))
    assert "It is read as a100-pcie-40gb" in unescape(page(several))
    assert "It is read as" not in page(one)
    assert any("It is read as" in note for note in json.loads(document(several))["answers"][0]["notes"])
