"""Every command that answers something has its answer as data, with the version of its form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace

import click
import pytest

from plimsoll.cli.cluster.answering import GivenAnswer, ProposalAnswer
from plimsoll.cli.commands import approve
from plimsoll.cli.forms import FORMAT
from plimsoll.cli.main import cli
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.house.test_options import commands
from tests.support.alone import ROOT

NO_ANSWER = {"console", "run", "fleet"}
"""They serve, or hold other commands."""
IN_THEIR_OWN_FORM = {"fleet export", "init", "completion"}
"""Their answer is a file, in the form that other programs read."""

FLEET = ("--fleet", str(ROOT / "examples" / "fleet.yaml"))
MANIFEST = ("-f", str(ROOT / "examples" / "01-minimal" / "deployment.yaml"))
OFFLINE: dict[str, Sequence[str]] = {
    "capacity": ("capacity", *MANIFEST, *FLEET),
    "estimate": ("estimate", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb"),
    "gpus": ("gpus",),
    "models": ("models",),
    "plan": ("plan", *MANIFEST, *FLEET),
    "plan with changes": ("plan", *MANIFEST, *FLEET, "--what-if", "-l40s"),
    "prices": ("prices",),
    "prices check": ("prices", "check", str(ROOT / "operator" / "plimsoll" / "catalog" / "prices.csv")),
    "simulate": ("simulate", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb", "--minutes", "1"),
}


def test_every_command_that_answers_has_its_answer_as_json() -> None:
    without = []
    for words, command in commands():
        forms = [each.type for each in command.params if "--output" in each.opts]
        if not any(isinstance(each, click.Choice) and "json" in each.choices for each in forms):
            without.append(words)
    assert set(without) == NO_ANSWER | IN_THEIR_OWN_FORM & set(without)


@pytest.mark.parametrize("answer", OFFLINE)
def test_a_document_says_its_version_first(answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((SystemExit, click.exceptions.Exit)) as left:
        cli.main([*OFFLINE[answer], "-o", "json"])
    assert getattr(left.value, "code", 0) in (0, None)
    document = json.loads(capsys.readouterr().out)
    assert next(iter(document.items())) == ("formatVersion", FORMAT)


def test_an_answer_to_a_proposal_is_data_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ProposalAnswer] = []

    def given(answer: ProposalAnswer) -> GivenAnswer:
        asked.append(answer)
        return GivenAnswer(answer, {"id": "a1", "summary": "2 replicas"}, ObjectKey("ml", "llama-x7"), "alex")

    monkeypatch.setattr(approve, "cluster_of", lambda _: SimpleNamespace(answer_proposal=given))
    for words in ((), ("-o", "json")):
        cli.main(["reject", "llama", "--reason", "no budget", *words], standalone_mode=False)
    text, _, data = capsys.readouterr().out.partition("{")
    assert text.startswith("alex rejected proposal a1 of llama (2 replicas, ")
    assert "kubectl get" in text
    found = json.loads("{" + data)
    assert (found["formatVersion"], found["decision"], found["approval"]) == (FORMAT, "reject", "llama-x7")
    assert [each.reason for each in asked] == ["no budget", "no budget"]
