"""Every public word is documented once, and nothing is documented that is not said."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from plimsoll.decision.supervisor import PassStep
from plimsoll.domain.decisions.proposals import ProposalReason
from plimsoll.domain.decisions.terms import DoubtKind
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.public_words import (
    ConditionReason,
    ConditionType,
    EngineReason,
    EventReason,
    LiveTrouble,
    NodeReason,
    PriceDoubt,
    Reason,
    RemedyKind,
    RoutingTrouble,
    SuggestionKind,
)
from plimsoll.facts.cluster.scheduler_words import Obstacle
from plimsoll.rebalance.state.decisions import AddReplica, DecisionReason, Keep, Move, RemoveReplica, Retune, Wait

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "operator" / "plimsoll"
PAGE = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
DOCUMENTED = Counter(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE))

KINDS = (
    Reason,
    NodeReason,
    RemedyKind,
    SuggestionKind,
    PriceDoubt,
    StartFailure,
    DecisionReason,
    Obstacle,
    PassStep,
    ConditionReason,
    EventReason,
    LiveTrouble,
    RoutingTrouble,
    ProposalReason,
    DoubtKind,
    EngineReason,
)
DECISIONS = {kind.__name__ for kind in (AddReplica, Keep, Move, RemoveReplica, Retune, Wait)}
KUBERNETES = {"True", "False", "Unknown", "Normal", "Warning", "ReplicaFailure", "ReplicaSet", "Pod"}
KUBERNETES |= {"Progressing", "NewReplicaSetAvailable"}
NOT_A_REASON = KUBERNETES | {"Decide", "Rebalanced", "Entry"}
"""Words of Kubernetes, of log lines and types, and the first half of the events of the live loop."""

IMAGINED = PACKAGE / "app" / "review" / "hypothetical.py"
"""It makes nodes and pods as Kubernetes shows them, with the words of Kubernetes."""

SAID = {each.value for each in ConditionType} | {word.value for words in KINDS for word in words} | DECISIONS


def bare() -> set[str]:
    """Texts that look like words of conditions and events, in the modules that make them."""
    words: set[str] = set()
    for path in (PACKAGE / "status" / "conditions.py", *sorted({*(PACKAGE / "app").rglob("*.py")} - {IMAGINED})):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= {node.value} if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z0-9]*)*", node.value) else set()
    return words - NOT_A_REASON


def test_no_reason_is_a_bare_text() -> None:
    assert bare() <= {step.value for step in PassStep}


def test_every_word_is_documented() -> None:
    assert sorted(SAID - DOCUMENTED.keys()) == []


def test_nothing_is_documented_that_is_not_said() -> None:
    assert sorted(DOCUMENTED.keys() - SAID) == []


def test_each_has_one_row_and_what_is_said_twice_is_pointed_out() -> None:
    assert [word for word, rows in DOCUMENTED.items() if rows > 1] == []
    uses = Counter(word.value for words in KINDS for word in words)
    for word in (word for word, count in uses.items() if count > 1):
        assert len(re.findall(f"`{word}`", PAGE)) > 1, f"{word} has two meanings: mention it beside the second table"


def test_the_links_at_the_top_lead_to_the_sections() -> None:
    sections = [line.removeprefix("## ") for line in PAGE.splitlines() if line.startswith("## ")]
    links = re.findall(r"^- \[(.+)\]\(#(.+)\)$", PAGE, flags=re.MULTILINE)
    assert [title for title, _ in links] == sections
    assert [anchor for _, anchor in links] == [title.lower().replace(" ", "-") for title in sections]
