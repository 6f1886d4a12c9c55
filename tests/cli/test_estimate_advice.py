"""The order of the answers, the advice above them, and the remedies for what does not fit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.answers.advice import MOST_TIMES, Advice, advice, advice_sentence
from plimsoll.cli.answers.rows import AnswerRow, Standing, rows_of
from plimsoll.cli.changes.changes import LEAST_CONTEXT, fewer_features, other_engines
from plimsoll.cli.changes.remedies import all_remedies
from plimsoll.cli.later import manifest_question
from plimsoll.cli.questions.asked import DEFAULT_CONCURRENCY, DEFAULT_CONTEXT, EstimateQuestion, TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.types import answers
from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.units import GIB
from plimsoll.placement.options.feasibility import hourly_price
from plimsoll.placement.options.sizing import Sized
from plimsoll.placement.options.speed import speed_of
from tests.cli.test_estimate import Ran, manifest, one
from tests.support.planning import H100, gpu
from tests.support.tables import every_case

pytestmark = pytest.mark.lengthy

QWEN = "Qwen/Qwen3-8B"
LARGE = "meta-llama/Llama-3.3-70B-Instruct"
MODELS = (QWEN, LARGE, "google/gemma-3-27b-it", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3")


def question(model: str, **asked: Any) -> EstimateQuestion:
    found = direct_question(model, TypedOptions(**asked))
    assert found is not None
    return found


def rows(model: str, **asked: Any) -> tuple[AnswerRow, ...]:
    request = question(model, **asked).request
    return rows_of(request, answers(request, (), None))


def table_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    return Ran(capsys, [*words, "-o", "json"]).answers()


PRODUCTS_OF_DESKS = ("NVIDIA-RTX-", "NVIDIA-GeForce-", "NVIDIA-GB10", "Jetson-", "AMD_Radeon_")

IN_SERVERS = (
    "a100-sxm-80gb", "l40s-48gb", "l4-24gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x-192gb",
    "rtx-pro-6000-bse-96gb", "rtx-pro-4500-32gb",
)  # fmt: skip
"""Types that clouds rent."""

NOT_FOR_SERVERS = {
    gpu.name
    for gpu in load_gpu_types()
    if any(label.startswith(PRODUCTS_OF_DESKS) for label in gpu.product_labels)
    and not (gpu.is_slice or gpu.name in IN_SERVERS)
}
"""Those for workstations, games and devices, by the product names that drivers report."""

OWNED = ("h200-sxm-141gb", "rtx-4090-24gb", "h20-141gb")
"""One that is dear, one of a family for games, and one that has no price."""


@pytest.mark.parametrize("owned", [(), OWNED], ids=["no cluster", "a cluster"])
@pytest.mark.parametrize("model", MODELS)
def test_what_fits_is_first_and_of_it_what_one_has_or_can_get(model: str, owned: tuple[str, ...]) -> None:
    """The order of table, documents and calculator: own types, those of servers, the rest, types without a price."""
    request = question(model).request
    found = rows_of(request, answers(request, (), None), owned)
    fitting = [row for row in found if row.fit != "No"]
    assert list(found[: len(fitting)]) == fitting
    standings = [row.standing for row in fitting]
    assert standings == sorted(standings)
    assert {row.gpu.name for row in fitting if row.standing is Standing.OWN} == {
        row.gpu.name for row in fitting if row.gpu.name in owned
    }
    for row in fitting:
        if row.gpu.name in NOT_FOR_SERVERS and row.gpu.name not in owned:
            assert row.standing in (Standing.RARE, Standing.UNPRICED)
    for standing in Standing:
        of_standing = [row for row in fitting if row.standing is standing]
        fits = [("Sure", "Probable").index(row.fit) for row in of_standing]
        assert fits == sorted(fits)
        for fit in ("Sure", "Probable"):
            of_fit = [row for row in of_standing if row.fit == fit]
            prices = [float("inf") if row.price is None else float(row.price) for row in of_fit]
            assert prices == sorted(prices)
            unpriced = [row.gpu.name for row in of_fit if row.price is None and row.answer.split.gpus == 1]
            assert unpriced == sorted(unpriced)
    for standing in Standing:
        missing = [
            row.answer.figures.needed_bytes - row.answer.figures.budget_bytes
            for row in found
            if row.fit == "No" and isinstance(row.answer, Sized) and row.standing is standing
        ]
        assert missing == sorted(missing)
    rejected = [row.gpu.name for row in found if isinstance(row.answer, Rejection)]
    assert rejected == [row.gpu.name for row in found[len(found) - len(rejected) :]] == sorted(rejected)


def test_cards_of_servers_stand_before_all_others() -> None:
    """Those that clouds rent: an estimate that begins with a card for a desk helps nobody with a cluster."""
    names = [row.gpu.name for row in rows(QWEN) if row.fit != "No"]
    assert names[0] not in NOT_FOR_SERVERS
    assert max(map(names.index, IN_SERVERS)) < min(names.index(each) for each in NOT_FOR_SERVERS if each in names)


def test_every_type_is_of_one_kind() -> None:
    """A card of a line for workstations that its maker also sells for servers is one of these."""
    assert {gpu.name for gpu in load_gpu_types() if not (gpu.is_for_servers or gpu.is_slice)} == NOT_FOR_SERVERS
    assert all(gpu.is_for_servers for gpu in load_gpu_types() if gpu.name in IN_SERVERS)


def test_the_advice_begins_with_what_the_cluster_has() -> None:
    request = question(QWEN).request
    found = rows_of(request, answers(request, (), None), OWNED)
    advised = advice(request, found)
    assert advised[Advice.CHEAPEST_OWNED].gpu.name == "rtx-4090-24gb"
    said = advice_sentence(request, found)
    assert said.startswith("Cheapest that this cluster has: 2 x rtx-4090-24gb (TP 2), $")
    assert "; cheapest that is common in servers: " in said
    assert Advice.CHEAPEST_OWNED not in advice(request, rows(QWEN))


@pytest.mark.parametrize("model", MODELS)
def test_price_and_speed_are_those_of_placement(model: str) -> None:
    request = question(model).request
    for row in rows(model):
        if row.fit == "No" or isinstance(row.answer, Rejection):
            assert row.speed is None
            continue
        assert row.price == hourly_price(row.gpu, row.answer.split)
        assert row.speed == speed_of(request, row.gpu, row.answer.split, row.answer.settings)


@pytest.mark.parametrize("model", MODELS)
def test_the_advice_is_the_least_of_what_may_be_advised(model: str) -> None:
    request, found = question(model).request, rows(model)
    advised = advice(request, found)
    priced = [row for row in found if row.fit != "No" and row.price is not None]
    sure = [row for row in priced if row.fit == "Sure"] or priced
    assert advised[Advice.CHEAPEST].price == min(row.price for row in sure if row.price is not None)
    usual = [row for row in sure if row.gpu.name not in NOT_FOR_SERVERS]
    first = advised.get(Advice.CHEAPEST_IN_SERVERS, advised[Advice.CHEAPEST])
    least = min(row.price for row in usual if row.price is not None)
    assert first.price == least
    quick = advised[Advice.FASTEST].speed
    affordable = [row for row in usual if row.price is not None and row.price <= MOST_TIMES * least]
    assert quick is not None
    assert quick.tpot_seconds == min(row.speed.tpot_seconds for row in affordable if row.speed is not None)
    said = advice_sentence(request, found)
    for row in advised.values():
        assert f"{row.answer.split.gpus} x {row.gpu.name} (TP {row.answer.split.tensor_parallel}" in said
        assert f"${row.price:.2f}/h" in said
        assert row.speed is not None
        assert f"{1000 * row.speed.tpot_seconds:.1f} ms a token" in said


def test_the_advice_leads_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [QWEN]).shown
    lines = shown.splitlines()
    said = " ".join(shown[shown.index("Cheapest") : shown.index("\n GPU ")].split())
    assert said.startswith("Cheapest that is common in servers: ")
    assert "; cheaper, in few servers: " in said
    assert re.search(r"; fastest under \$\d+\.\d\d/h: ", said)
    first = next(line for line in lines if " fits " in line and line.startswith(" "))
    assert first.split()[0] in said
    assert not any("Cheapest" in line for line in Ran(capsys, [QWEN, "--gpu", "l4"]).shown.splitlines())


def test_json_stays_a_list_in_the_same_order_with_the_advice_in_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = table_of(capsys, QWEN)
    assert [each["gpuType"] for each in found] == [row.gpu.name for row in rows(QWEN)]
    words = {word: each["gpuType"] for each in found for word in each["advice"]}
    assert words == {word.value: row.gpu.name for word, row in advice(question(QWEN).request, rows(QWEN)).items()}
    cheapest = found[0]
    assert cheapest["advice"] == ["CheapestInServers"]
    assert cheapest["priceSource"].startswith("catalog: ")
    tpot = cheapest["performance"]["tpotSeconds"]
    assert tpot["low"] <= tpot["expected"] <= tpot["high"]
    unfit = [each for each in found if each["fit"] == "No"]
    assert unfit
    assert all(each["performance"] is None and each["advice"] == [] for each in unfit)


def test_a_type_without_a_price_is_no_advice_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [QWEN, "--gpu", "h20-96gb"]).shown
    assert "Price: not known for h20-96gb." in shown
    assert re.search(r"^ h20-96gb +1 +1 +fits +- +\d+\.\d ", shown, re.MULTILINE)
    both = Ran(capsys, [QWEN, "--gpu", "h20-96gb", "--gpu", "h800-sxm-80gb"]).shown
    assert "2 of 2 GPU types fit, but none of them has a price." in both
    assert "Price: $0.84 an hour for 2 GPUs (catalog: " in Ran(capsys, [QWEN, "--gpu", "l4"]).shown


def test_a_load_that_nothing_holds_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, ["deepseek-ai/DeepSeek-V3", "--gpu", "l4", "--gpu", "t4"]).shown
    assert "None of 2 GPU types fits this load. The nearest is 8 x l4-24gb" in shown
    assert "no change that was tried makes it fit" in shown


def test_a_promise_of_latency_bounds_the_advice(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    plain = table_of(capsys, manifest(tmp_path, model={"name": QWEN}))
    slow = next(each for each in plain if "Cheapest" in each["advice"])
    limit = int(1000 * slow["performance"]["tpotSeconds"]["expected"]) - 1
    promised = manifest(tmp_path, model={"name": QWEN}, slo={"tpotMilliseconds": limit})
    quick = next(each for each in table_of(capsys, promised) if "Cheapest" in each["advice"])
    assert quick["gpuType"] != slow["gpuType"]
    assert quick["performance"]["tpotSeconds"]["expected"] <= limit / 1000


CASES = (
    (QWEN, ("l4", "t4", "rx-7800-xt-16gb")),
    (LARGE, ("l4", "a16-16gb", "rtx-3090-24gb", "t4", "jetson-agx-orin-64gb")),
    ("google/gemma-3-27b-it", ("rtx-3090-24gb", "t4", "jetson-agx-orin-64gb")),
    ("deepseek-ai/DeepSeek-V3", ("h20-96gb", "h100-nvl-94gb")),
)


@pytest.mark.parametrize(("model", "gpu"), [(model, gpu) for model, gpus in CASES for gpu in gpus])
@pytest.mark.parametrize("split", [(), ("--tp", "1")], ids=["any", "tp1"])
def test_every_remedy_makes_it_fit_as_the_command_line_writes_it(
    capsys: pytest.CaptureFixture[str], model: str, gpu: str, split: tuple[str, ...]
) -> None:
    answer = one(capsys, model, "--gpu", gpu, *split)
    if answer["fit"] == "Sure":
        assert answer["remedies"] == []
        return
    for remedy in answer["remedies"]:
        options = shlex.split(remedy["options"])
        assert options or remedy["model"] or "in spec.podTemplate.env" in remedy["message"]
        assert _after("--concurrency", options) < DEFAULT_CONCURRENCY
        assert _after("--context-length", options) < DEFAULT_CONTEXT
        if not options and remedy["model"] is None:
            continue  # a variable of the pod, which the command line does not know
        elsewhere = "--gpu" in options
        degree = () if "--tp" in options or elsewhere else split
        card = () if elsewhere else ("--gpu", gpu)
        again = one(capsys, remedy["model"] or model, *card, *degree, *options)
        assert again["fit"] == "Sure" or again["doubts"], remedy
        for key in ("tensorParallel", "pipelineParallel", "dataParallel"):
            assert again[key] == remedy[key]
        assert again["bandBytes"]["high"] <= remedy["neededBytes"] <= remedy["budgetBytes"]


def _after(name: str, options: Sequence[str]) -> int:
    """The figure of an option; 1 where it is not given."""
    return int(options[options.index(name) + 1]) if name in options else 1


OLD = ("--engine", "0.20.0", "--tp", "1")
FLAGS = {
    "--batched-tokens": (QWEN, "l4", ("--context-length", "28000", "--concurrency", "1", "--batched-tokens", "16384")),
    "--utilization": (QWEN, "rtx-3090-24gb", ("--context-length", "20000", "--concurrency", "2")),
    "--text-only": ("google/gemma-3-27b-it", "a100-sxm-80gb", ("--concurrency", "4", "--batched-tokens", "16384")),
}


@every_case(("flag", "asked"), FLAGS.items(), ids=FLAGS)
def test_a_flag_of_the_engine_comes_before_other_gpus(
    capsys: pytest.CaptureFixture[str], flag: str, asked: tuple[str, str, tuple[str, ...]]
) -> None:
    model, card, options = asked
    offered = [each["options"] for each in one(capsys, model, "--gpu", card, *OLD, *options)["remedies"]]
    place = next(index for index, each in enumerate(offered) if each.startswith(flag))
    others = [index for index, each in enumerate(offered) if "--gpu" in each or "--tp" in each]
    assert all(place < index for index in others)


def test_a_need_that_is_short_by_little_is_not_sent_to_a_second_gpu_first(capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_), missing = _tight(capsys)
    assert 0 < missing < GIB
    assert "--tp" not in first["options"]
    assert "--gpu" not in first["options"]


def test_the_other_runner_and_the_usual_release_are_among_the_changes() -> None:
    request = question(QWEN, engine="0.25.1").request
    changes = {each.words: each for each in other_engines(request, gpu(H100))}
    assert list(changes) == ["model runner V1 (VLLM_USE_V2_MODEL_RUNNER=0 in spec.podTemplate.env)", "release 0.32.0"]
    assert [each.request.engine.model_runner for each in changes.values()] == [1, None]
    assert [each.words for each in other_engines(question(QWEN, engine="0.21.0").request, gpu(H100))] == [
        "release 0.32.0"
    ]
    assert [each.request.engine.model_runner for each in other_engines(question(QWEN).request, gpu(H100))] == [1]


def test_what_an_engine_may_do_without_is_named_once() -> None:
    plain, eager = question(QWEN).request, question(QWEN, eager=True).request
    assert [each.option for each in fewer_features(plain)] == ["--eager"]
    assert [each.option for each in fewer_features(eager)] == []
    towers = manifest_question("google/gemma-3-27b-it", TypedOptions(speculate=("Ngram", 4))).request
    without = {each.option: each.request for each in fewer_features(towers)}
    assert list(without) == ["--eager", "--text-only", ""]
    assert without["--text-only"].model.encoder is None
    assert without[""].engine.speculation is None


def _tight(capsys: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], int]:
    """The remedies of the first load on an RTX 3090 that needs a little more than there is, and the missing bytes."""
    for context in range(14_000, 24_000, 200):
        asked = ("--context-length", str(context), "--concurrency", "2")
        found = one(capsys, QWEN, "--gpu", "rtx-3090-24gb", *OLD, *asked)
        if found["fit"] != "Sure":
            return found["remedies"], found["bandBytes"]["high"] - found["budgetBytes"]
    raise AssertionError("every load fits")


def test_every_kind_of_remedy_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        (model, gpu): [each["message"] for each in one(capsys, model, "--gpu", gpu, *more)["remedies"]]
        for model, gpu, more in (
            (QWEN, "t4", ()),
            (QWEN, "l4", ("--tp", "1")),
            (LARGE, "l4", ()),
            ("deepseek-ai/DeepSeek-V3", "h20-96gb", ()),
        )
    }
    assert "fp16 weights (--precision fp16)" in " ".join(found[QWEN, "t4"])
    assert "TP 2 (--tp 2)" in " ".join(found[QWEN, "l4"])
    assert "--concurrency " in " ".join(found[QWEN, "l4"])
    assert "--context-length " in " ".join(found[QWEN, "l4"])
    assert "the fp8 checkpoint RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic: needs " in " ".join(found[LARGE, "l4"])
    assert "fp8 weights (--precision fp8)" in " ".join(found[LARGE, "l4"])
    assert "an fp8 KV cache (--kv-precision fp8)" in " ".join(found["deepseek-ai/DeepSeek-V3", "h20-96gb"])


def test_the_table_shows_the_first_remedy_below_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.strip() for line in Ran(capsys, [LARGE]).shown.splitlines()]
    at = next(index for index, line in enumerate(lines) if line.startswith("l4-24gb"))
    assert " no " in lines[at]
    assert lines[at + 1] == "fits with the published fp8 checkpoint on 8 GPUs (TP 8)"
    fitting = next(index for index, line in enumerate(lines) if line.startswith("h200-sxm-141gb"))
    assert not lines[fitting + 1].startswith("fits with")
    unfit = next(each for each in table_of(capsys, LARGE) if each["gpuType"] == "l4-24gb")
    assert [each["model"] for each in unfit["remedies"]] == ["RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"]


def test_what_the_user_ruled_out_gets_no_remedy(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    denied = one(capsys, manifest(tmp_path, gpu={"deny": ["l4-24gb"]}), "--gpu", "l4")
    assert (denied["reason"], denied["remedies"]) == ("GpuTypeDenied", [])


def test_no_remedy_offers_a_context_that_is_of_no_use() -> None:
    request = question(QWEN, context_length=8192, concurrency=200).request
    for row in rows(QWEN, context_length=8192, concurrency=200):
        if row.fit != "No":
            continue
        for remedy in all_remedies(request, row.gpu, row.answer, None):
            assert remedy.changes[-1].request.shape.context_tokens >= LEAST_CONTEXT
            assert remedy.answer.figures.fit_by_figures == "Sure"


def test_a_gpu_that_no_change_helps_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    hopeless = ("deepseek-ai/DeepSeek-V3", "--gpu", "l4", "--concurrency", "60000", "--context-length", "131072")
    assert "No change that was tried would make it fit for sure" in Ran(capsys, [*hopeless]).shown
    assert one(capsys, *hopeless)["remedies"] == []


def test_a_gpu_that_no_change_helps_gets_another_one_with_its_price(capsys: pytest.CaptureFixture[str]) -> None:
    (other,) = one(capsys, QWEN, "--gpu", "v100-sxm2-16gb")["remedies"]
    assert re.fullmatch(r"[\w-]+ at \$\d+\.\d\d an hour \(--gpu [\w-]+\): needs .*", other["message"])


@pytest.mark.parametrize(
    "split",
    [("--tp", "3"), ("--tp", "1", "--pp", "64"), ("--tp", "1", "--dp", "8"), ("--tp", "2", "--ep")],
    ids=" ".join,
)
def test_a_split_that_cannot_be_gets_one_that_can(capsys: pytest.CaptureFixture[str], split: tuple[str, ...]) -> None:
    refused = one(capsys, QWEN, "--gpu", "l4", *split)
    assert refused["fit"] == "No"
    assert [each["options"] for each in refused["remedies"]] == ["--tp 2", "--gpu a40-48gb"]
    slice_ = one(capsys, QWEN, "--gpu", "a100-sxm-80gb-mig-1g.10gb", *split)
    assert all("--tp 1" in each["options"] or "--gpu" in each["options"] for each in slice_["remedies"])
