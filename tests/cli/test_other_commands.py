"""``gpus``, ``models``, ``explain`` and ``--version``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import plimsoll
from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.cli import main as command_line
from plimsoll.cli.commands import explain
from plimsoll.domain.decisions.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, StepLimits
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import PoolView, RebalancingReport, Report
from plimsoll.status.writing import document_of, new_status
from tests.cli.conftest import Run
from tests.render.workloads import decision
from tests.support.planning import LLAMA_70B_FP8, fleet, model, node, request

NOW = "2026-01-01T00:00:00Z"
BF16, CACHE, RELEASE = Precision.BF16, KvPrecision.BF16, EngineVersion(0, 32)
SERVED = EngineKind("some/model", BF16, CACHE, "h100-sxm-80gb", RELEASE, Split(2))
STARVED = EngineKind("some/model", BF16, CACHE, "l4-24gb", RELEASE, Split(1, 2))
OBSERVED = (
    Seen(Observation(SERVED, Witness.METRICS, 2 * GIB, GIB, StepLimits(2048, 8)), "spec"),
    Seen(Observation(STARVED, Witness.OUT_OF_MEMORY, 2 * GIB, None, StepLimits(2048, 8)), "spec"),
)


def status(report: Report) -> dict[str, Any]:
    return document_of(new_status(report, Record(), NOW))


def shown(*words: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(command_line.cli, words)
    assert result.exit_code == exit_code, result.output
    return result.output


def test_version() -> None:
    assert plimsoll.__version__ in shown("--version")


def test_every_gpu_type_is_listed_with_what_is_known_of_it() -> None:
    lines = shown("gpus").splitlines()
    listed = {line.split()[0] for line in lines[1:]}
    assert {gpu.name for gpu in load_gpu_types()} <= listed
    (h100,) = (line for line in lines if line.split()[:2] == ["h100-sxm-80gb", "79.15"])
    assert h100.split()[:4] == ["h100-sxm-80gb", "79.15", "NVIDIA-H100-80GB-HBM3", "3.08"]
    (unpriced,) = (line for line in lines if line.split()[:1] == ["h20-96gb"])
    assert unpriced.split()[-2:] == ["-", "-"]


def test_every_catalogued_model_is_listed_by_its_name_alone() -> None:
    assert tuple(shown("models").splitlines()) == catalogued_models()


class TestExplain:
    @pytest.fixture
    def cluster(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """The one object of a cluster that is not there; tests fill it."""
        body: dict[str, Any] = {}

        def read(key: ObjectKey) -> dict[str, Any] | None:
            return body if key == ObjectKey("ml", "llama") and body else None

        monkeypatch.setattr(explain, "cluster_of", lambda _: SimpleNamespace(inference_deployment=read))
        return body

    def test_a_deployment_that_serves_is_told_from_decision_to_engine(self, cluster: dict[str, Any]) -> None:
        live = RebalancingReport("AddReplica", "SustainedKvPressure", "KV cache at 91 %.", proposal="2 replicas")
        planned = decision()
        assert planned.choice is not None
        predicted = planned.choice.estimate.kv_capacity_tokens
        view = PoolView("h100-sxm-80gb-tp1", pods=1, ready=1, kv_tokens_reported=round(predicted / 1.01))
        report = Report("llama", 2, 1, planned, model=model(), pools=(view,), rebalancing=live, observations=OBSERVED)
        cluster |= {"metadata": {"generation": 2}, "status": status(report)}
        said = shown("explain", "llama", "-n", "ml")
        for expected in (
            "Ready=True Serving: 1 of 1 replica serves.",
            "One GPU of h100-sxm-80gb at tensor parallel 1:",
            "It fits for sure: expected",
            "Price: $3.08/h for one replica (catalog: 14 votes of 26 offers, newest 2026-08-21).",
            f"1/1 replicas, Active, engine reports {view.kv_tokens_reported} KV tokens (estimate +",
            "some/model on h100-sxm-80gb x 2, vLLM 0.32.0: 1.00 GiB for its KV cache, 2.00 GiB predicted (Metrics).",
            "some/model on l4-24gb x 1 x 2 stages, vLLM 0.32.0: ran out of memory, 2.00 GiB predicted (OutOfMemory).",
            "Rebalancing: AddReplica (SustainedKvPressure). KV cache at 91 %.",
            "Proposal: 2 replicas",
        ):
            assert expected in said
        assert "has not seen the last change" not in said

    def test_the_last_decisions_and_what_would_make_room_are_told(self, cluster: dict[str, Any]) -> None:
        first = {"id": "a1", "at": "2026-11-22T20:00:00Z", "placed": "1 on l4-24gb x 1", "solver": "in turn"}
        second = {
            "id": "b2",
            "at": "2026-11-22T21:00:00Z",
            "placed": "2 on l40s-48gb x 1",
            "replaced": "1 on l4-24gb x 1",
            "solver": "programme",
            "gapPermille": 4,
        }
        room = {"reason": "DefragmentNode", "message": "move 1 of chat."}
        told = {"observedGeneration": 1, "decisions": [second, first], "proposals": [room]}
        cluster |= {"metadata": {"generation": 1}, "status": told}
        said = " ".join(shown("explain", "llama", "-n", "ml").split())
        assert (
            "Decision b2 at 2026-11-22T21:00:00Z: 2 on l40s-48gb x 1 instead of 1 on l4-24gb x 1 "
            "(found by an integer programme over all deployments together; a better plan could save 0.4 % at most)."
        ) in said
        assert "1 on l4-24gb x 1 (each deployment in turn got the cheapest place that was free)." in said
        assert "Proposal (DefragmentNode): move 1 of chat." in said

    def test_a_proposal_is_told_with_the_command_that_approves_it_and_a_rejection_with_its_reason(
        self, cluster: dict[str, Any]
    ) -> None:
        live = {"decision": "Move", "reason": "PlacementTooSmall", "message": "Too small.", "proposal": "Set it."}
        refusal = {"proposal": "1" * 12, "by": "alex", "until": "2026-11-22T20:00:00Z", "generation": 1}
        told = live | {"proposalId": "2" * 12, "rejected": [refusal | {"reason": "no budget"}, refusal]}
        head = {"name": "llama", "namespace": "ml", "generation": 1}
        cluster |= {"metadata": head, "status": {"observedGeneration": 1, "rebalancing": told}}
        said = shown("explain", "llama", "-n", "ml")
        assert f"Approve it: plimsoll approve llama -n ml --proposal {'2' * 12}" in said
        assert f"Rejected by alex until 2026-11-22T20:00:00Z: proposal {'1' * 12}: no budget" in said
        assert said.count("Rejected by alex") == 2
        cluster["status"]["rebalancing"] = live
        assert "Approve it" not in shown("explain", "llama", "-n", "ml")

    def test_a_refusal_is_told_with_its_remedies(self, cluster: dict[str, Any]) -> None:
        wanted = request(LLAMA_70B_FP8, context=131_072, concurrency=64)
        report = Report("llama", 1, 1, decision(wanted, fleet(node("h", "h100-sxm-80gb"))), model=model())
        cluster |= {"metadata": {"generation": 1}, "status": status(report)}
        said = shown("explain", "llama", "-n", "ml")
        assert "Stalled=True NoGpuFits" in said
        assert "What would help:" in said

    def test_a_status_from_before_the_last_change_is_said_to_be_old(self, cluster: dict[str, Any]) -> None:
        cluster |= {"metadata": {"generation": 3}, "status": status(Report("llama", 2, 1))}
        assert "The operator has not seen the last change yet" in shown("explain", "llama", "-n", "ml")

    def test_a_placement_that_proved_too_small_is_named(self, cluster: dict[str, Any]) -> None:
        small = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 12_000, "spec": "s"}
        cluster |= {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "tooSmall": [small]}}
        said = shown("explain", "llama", "-n", "ml")
        assert "Proved too small: l4-24gb x 1, its engine got 12000 KV tokens." in said

    def test_a_move_that_was_taken_back_is_named_with_its_reason_and_its_pause(self, cluster: dict[str, Any]) -> None:
        failed = {
            "gpuType": "l4-24gb", "tensorParallel": 1, "at": "2026-11-22T10:00:00Z", "until": "2026-11-22T16:00:00Z",
            "times": 1, "reason": "EngineCrashed", "message": "no such file", "spec": "s",
        }  # fmt: skip
        twice = {**failed, "gpuType": "l40s-48gb", "times": 2, "until": "2026-11-22T22:00:00Z", "message": ""}
        status = {"observedGeneration": 1, "failedMoves": [failed, twice]}
        cluster |= {"metadata": {"generation": 1}, "status": status}
        said = shown("explain", "llama", "-n", "ml")
        assert (
            "Taken back: a move to l4-24gb x 1 at 2026-11-22T10:00:00Z (EngineCrashed: no such file). It is refused "
            "until 2026-11-22T16:00:00Z." in said
        )
        assert "l40s-48gb x 1 at 2026-11-22T10:00:00Z, 2 times so far (EngineCrashed). It is refused until" in said

    def test_settings_that_were_taken_back_are_named_with_their_pause(self, cluster: dict[str, Any]) -> None:
        failed = {
            "gpuType": "l4-24gb", "tensorParallel": 1, "maxSequences": 64, "at": "2026-11-22T10:00:00Z",
            "until": "2026-11-22T16:00:00Z", "times": 1, "reason": "EngineCrashed", "message": "no flag", "spec": "s",
        }  # fmt: skip
        cluster |= {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "failedMoves": [failed]}}
        assert (
            "Taken back: --max-num-seqs 64 on l4-24gb x 1 at 2026-11-22T10:00:00Z (EngineCrashed: no flag). It is not "
            "changed there before 2026-11-22T16:00:00Z." in shown("explain", "llama", "-n", "ml")
        )

    def test_an_entry_that_cannot_be_used_is_named_and_its_neighbour_is_shown(self, cluster: dict[str, Any]) -> None:
        small = {"gpuType": "l4-24gb", "tensorParallel": 1, "kvTokens": 12_000, "spec": "s"}
        status = {"observedGeneration": 1, "tooSmall": [{**small, "kvTokens": -1}, small], "of-tomorrow": 1}
        cluster |= {"metadata": {"generation": 1}, "status": status}
        said = shown("explain", "llama", "-n", "ml")
        assert "Warning: status.tooSmall[0] is ignored: kvTokens: Input should be greater than or equal to 0" in said
        assert said.count("Proved too small: l4-24gb x 1, its engine got 12000 KV tokens.") == 1
        assert "of-tomorrow" not in said

    def test_an_object_without_a_status_is_no_accident(self, cluster: dict[str, Any]) -> None:
        cluster |= {"metadata": {"generation": 1}}
        assert "has not seen the last change" in shown("explain", "llama", "-n", "ml")

    def test_an_object_that_is_not_there(self, cluster: dict[str, Any]) -> None:
        assert cluster == {}
        failed = CliRunner().invoke(command_line.cli, ("explain", "llama", "-n", "ml"))
        assert isinstance(failed.exception, InvalidInput)
        assert "There is no InferenceDeployment ml/llama: name another one" in str(failed.exception)

    def test_the_story_as_data_is_the_status_and_whether_it_is_up_to_date(self, cluster: dict[str, Any]) -> None:
        head = {"name": "llama", "namespace": "ml", "generation": 3}
        cluster |= {"metadata": head, "status": status(Report("llama", 2, 1)) | {"tooSmall": [{"gpuType": "l4-24gb"}]}}
        found = json.loads(shown("explain", "llama", "-n", "ml", "-o", "json"))
        assert (found["formatVersion"], found["namespace"], found["name"], found["upToDate"]) == (
            1,
            "ml",
            "llama",
            False,
        )
        assert found["status"]["observedGeneration"] == 2
        assert "status.tooSmall[0] is ignored" in found["warnings"][0]


RENAMED = {
    "a context": (("estimate", "Qwen/Qwen3-8B", "--kube-context", "prod"), "--kube-context", "--context"),
    "the file of a snapshot": (("fleet", "export", "-o", "fleet.json"), "-o", "--save"),
}  # fmt: skip


@pytest.mark.parametrize("case", RENAMED)
def test_an_option_of_another_name_is_answered_by_one_sentence_with_the_new_one(run: Run, case: str) -> None:
    words, old, new = RENAMED[case]
    assert run(*words) == (2, "", f"error: {old} is no option of this command: it is {new} now.\n")


@pytest.mark.parametrize("words", [("estimate", "Qwen/Qwen3-8B"), ("simulate", "Qwen/Qwen3-8B", "--gpu", "l4")])
def test_tokens_are_not_taken_for_a_context_of_the_kubeconfig(run: Run, words: tuple[str, ...]) -> None:
    status, out, said = run(*words, "--context", "8192")
    assert (status, out) == (2, "")
    assert said.endswith("Tokens are --context-length.\n")


def test_an_unknown_option_is_still_unknown(run: Run) -> None:
    status, _, said = run("gpus", "--kube-context", "prod")
    assert status == 2
    assert "No such option '--kube-context'" in said or "No such option: --kube-context" in said


NAMESPACED = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
users: [{name: u, user: {token: t}}]
current-context: here
"""


def test_the_namespace_follows_the_context(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text(NAMESPACED, encoding="utf-8")
    asked: list[ObjectKey] = []
    monkeypatch.setattr(explain, "cluster_of", lambda _: SimpleNamespace(inference_deployment=asked.append))
    for words in ((), ("-n", "other")):
        run("explain", "llama", "--kubeconfig", str(config), *words)
    assert asked == [ObjectKey("team", "llama"), ObjectKey("other", "llama")]


@pytest.mark.parametrize("words", [(), ("fleet",), ("prices",)], ids=lambda words: " ".join(words) or "plimsoll")
def test_the_list_of_commands_cuts_no_sentence(words: tuple[str, ...]) -> None:
    listed = shown(*words, "--help")
    assert "..." not in listed.split("Commands:")[1]
    if not words:
        assert "Show the fleet and its deployments in the terminal, worst first, and keep it fresh." in " ".join(
            listed.split()
        )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("plann",), "No such command 'plann'. Did you mean plan?"),
        (("zzz",), "No such command 'zzz'."),
        (("estimate", "x", "--context-length", "1m"), "'1m' cannot be used. Write a whole number from 1 on, in digits"),
        (("estimate", "x", "--concurrency", "-3"), "'-3' cannot be used. Write a whole number from 1 on, in digits"),
        (("estimate", "x", "--tp", "65"), "'65' cannot be used. Write a whole number from 1 to 64, in digits alone."),
        (
            ("simulate", "Qwen/Qwen3-8B", "--gpu", "L4", "--trace", "nope"),
            "--trace: 'nope' cannot be used. It cannot be read: No such file or directory.",
        ),
        (("learn", "nope.log"), "LOG: 'nope.log' cannot be used. It cannot be read: No such file or directory."),
        (
            ("plan", "-f", "nope", "--fleet", "x"),
            "'nope' cannot be used. It cannot be read: No such file or directory.",
        ),
    ],
)
def test_a_wrong_word_or_number_says_what_to_write(run: Run, line: tuple[str, ...], said: str) -> None:
    status, _, errors = run(*line)
    assert status == 2
    assert said in errors
    assert errors.count("nope") <= 1
