"""Do decisions reach real engines? A larger batch limit, a proposal that somebody approves, and one replica fewer.

Two deployments do this at the same time, because an engine takes long to start. The tests build on one another in the
order of this file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.approvals import install_kinds
from testbed.engine.environment import ensure_engine
from testbed.engine.tiny_model import write_tiny_model
from testbed.fleet import gpu_node
from testbed.traffic.traffic import Load, Traffic
from tests.live.bench import L4_NODE, L4_POOL, LLAMA, LLAMA_BLOCKS, START_SECONDS, TIMING, Bench, bench_of
from tests.support.approvals import Person

pytestmark = [pytest.mark.live, pytest.mark.story, pytest.mark.timeout(3600)]

BATCH, ASKED = "batch", "asked"
APPROVER_ROLE = "plimsoll-approver"

NO_SUCH_PROPOSAL = "Name the id of one that stands"
"""Part of the command's answer where the live loop has withdrawn the proposal meanwhile, or proposes another one."""

SEES_SECONDS = 600.0
"""For a change of the load to be seen, decided and written; only what hangs takes so long."""

GOES_SECONDS = 1200.0
"""For an old engine to be left by its users, and to end, likewise."""

LENIENT = {"ttftMilliseconds": 600_000, "tpotMilliseconds": 60_000}
"""Promises that no machine breaks: how fast this one is decides nothing."""

LONG_REQUESTS: dict[str, Any] = {"concurrency": 2, "expectedTokens": {"prompt": 3000, "output": 900}}
"""The KV cache of an L4 holds two such requests, so the operator sets --max-num-seqs to 2."""

DECLARED_SEQUENCES = 2

SHORT = Load(per_second=20, users=8, prompt_tokens=60, output_tokens=100)
"""Eight requests at a time that are much shorter than declared: two run, six wait, and the cache is almost empty."""

FEW_SHORT = Load(per_second=1, users=2, prompt_tokens=60, output_tokens=100)

FULL = Load(per_second=20, users=12, prompt_tokens=1000, output_tokens=60)
"""Twelve requests at a time want 108 blocks of 128 tokens, of the 85 that an engine has for them."""

QUIET = Load(per_second=0.2, users=1, prompt_tokens=1000, output_tokens=60)
"""Requests of the same lengths, of which one replica carries many more."""

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One deployment that decides by itself, and one that asks people; the engines start together."""
    model = write_tiny_model(tmp_path_factory.mktemp("tiny-model"), engine_python=ensure_engine())
    nodes, settings = [gpu_node(L4_NODE, "L4", 4)], {"PLIMSOLL_APPROVALS": "true"}
    with bench_of("decides", Path(model), nodes=nodes, environment=settings) as running:
        install_kinds(running.view.control_plane)
        # One change an hour: it cannot be taken back while the tests look at it.
        auto = {"mode": "Auto", "maxReplicas": 1, **TIMING, "changesPerHour": 1}
        running.deploy(BATCH, LLAMA, LLAMA_BLOCKS, slo=LENIENT, rebalancing=auto, **LONG_REQUESTS)
        advice = {"mode": "Recommend", "maxReplicas": 2, **TIMING}
        running.deploy(ASKED, LLAMA, LLAMA_BLOCKS, slo=LENIENT, rebalancing=advice)
        for name in (BATCH, ASKED):
            running.wait_ready(name)
        yield running


@pytest.fixture(scope="module")
def short_users(bench: Bench) -> Iterator[Traffic]:
    """Users of the deployment that decides by itself; each test sets their load."""
    with bench.traffic(BATCH) as running:
        yield running


@pytest.fixture(scope="module")
def users(bench: Bench) -> Iterator[Traffic]:
    """Users of the deployment that asks people; each test sets their load."""
    with bench.traffic(ASKED) as running:
        yield running


@pytest.fixture(scope="module")
def first(bench: Bench, short_users: Traffic, users: Traffic) -> dict[str, str]:
    """The first pod of each deployment; from now on both have more users than they can serve at a time."""
    pods = {name: pod for name in (BATCH, ASKED) for pod in bench.ready_pods(name)}
    short_users.set(SHORT)
    users.set(FULL)
    return pods


@pytest.fixture(scope="module")
def approver(bench: Bench) -> Person:
    """Has the chart's role for approvals, and nothing else."""
    person = Person(bench.view, "approver")
    person.appoint(APPROVER_ROLE)
    return person


@pytest.fixture(scope="module")
def stranger(bench: Bench) -> Person:
    """Has the same rights without the verb ``approve``."""
    person = Person(bench.view, "stranger")
    person.grant(
        {"resources": ["placementproposals"], "verbs": ["get", "list", "watch"]},
        {"resources": ["placementapprovals"], "verbs": ["get", "list", "watch", "create"]},
    )
    return person


def test_the_operator_starts_an_engine_with_the_limit_that_it_computed(bench: Bench) -> None:
    [pod] = bench.ready_pods(BATCH)
    assert "maxSequences" not in bench.view.get(BATCH)["spec"]["engine"]
    assert _sequences_of(bench, pod) == DECLARED_SEQUENCES
    assert _sequences_in_status(bench) == DECLARED_SEQUENCES


def test_a_limit_that_binds_is_raised(bench: Bench, first: dict[str, str], short_users: Traffic) -> None:
    bench.wait(lambda: _changes(bench, BATCH), "a change of the limit", SEES_SECONDS)
    bench.wait(lambda: bench.most("vllm:num_requests_waiting", first[BATCH]) > 0, "a queue", SEES_SECONDS)
    log.info("%s: %s", BATCH, bench.rebalancing(BATCH)["lastChange"])
    assert _changes(bench, BATCH) == ["Retune"]
    said = _last_change(bench, BATCH)
    assert "(--max-num-seqs limits it)" in said
    assert f"--max-num-seqs {_sequences_in_status(bench)} instead of {DECLARED_SEQUENCES}" in said
    short_users.set(FEW_SHORT)  # the new engine starts sooner


def test_a_change_that_needs_people_is_only_proposed(bench: Bench, first: dict[str, str]) -> None:
    body = bench.wait(lambda: _proposal(bench), "a proposal", SEES_SECONDS)
    [before], [after] = body["from"], body["to"]
    log.info("%s: %s", ASKED, body["message"])
    assert (body["change"], before["replicas"], after["replicas"]) == ("AddReplica", 1, 2)
    assert bench.ready_pods(ASKED) == [first[ASKED]]
    assert bench.rebalancing(ASKED)["targetReplicas"] == 1


def test_somebody_without_the_verb_approve_is_refused(bench: Bench, first: dict[str, str], stranger: Person) -> None:
    assert bench.ready_pods(ASKED) == [first[ASKED]]
    status, said = bench.wait(lambda: _asked_to_approve(bench, stranger), "an answer about a proposal", SEES_SECONDS)
    assert status == 2
    assert f'spec.deployment is "{ASKED}", and "{stranger.user}" may not approve it' in said
    assert bench.view.all("placementapprovals") == []
    assert bench.rebalancing(ASKED)["targetReplicas"] == 1


def test_somebody_with_the_verb_alone_has_it_carried_out(bench: Bench, users: Traffic, approver: Person) -> None:
    assert _may(bench, approver, "patch", "inferencedeployments") == "no"
    spec = bench.view.get(ASKED)["spec"]
    _approve_until(bench, approver, replicas=2)
    log.info("%s: %s", ASKED, _last_change(bench, ASKED))
    assert _last_change(bench, ASKED).endswith(f"Approved by {approver.user}.")
    assert bench.view.get(ASKED)["spec"] == spec
    users.set(QUIET)  # the new engine starts sooner


def test_the_new_limit_is_that_of_a_new_engine_which_serves_before_the_old_one_goes(
    bench: Bench, first: dict[str, str], short_users: Traffic
) -> None:
    bench.wait(lambda: set(bench.ready_pods(BATCH)) - {first[BATCH]}, "a new engine that serves", START_SECONDS)
    bench.wait(lambda: _has_gone(bench, first[BATCH]), "the end of the old engine", GOES_SECONDS)
    [new] = bench.ready_pods(BATCH)
    assert _sequences_of(bench, new) == _sequences_in_status(bench) >= 1.25 * DECLARED_SEQUENCES

    short_users.set(SHORT)
    running = "vllm:num_requests_running"
    bench.wait(lambda: bench.most(running, new) > DECLARED_SEQUENCES, "more requests at the same time", SEES_SECONDS)
    log.info("%s: %.0f requests at the same time; %s", BATCH, bench.most(running, new), short_users.tally.line())
    assert bench.most(running, first[BATCH]) == DECLARED_SEQUENCES
    assert set(short_users.tally.by_pod()) == {first[BATCH], new}
    assert short_users.tally.lost() == []
    short_users.set(FEW_SHORT)


def test_the_approved_replica_takes_traffic(bench: Bench, first: dict[str, str], users: Traffic) -> None:
    bench.wait(lambda: len(bench.ready_pods(ASKED)) == 2, "two replicas that serve", START_SECONDS)
    [new] = set(bench.ready_pods(ASKED)) - {first[ASKED]}
    users.set(FULL)
    bench.wait(lambda: users.tally.by_pod()[new] >= 5, "answers of the new replica", SEES_SECONDS)
    bench.wait(lambda: bench.rebalancing(ASKED)["decision"] != "RemoveReplica", "both are needed", SEES_SECONDS)
    log.info("%s: %s", ASKED, users.tally.line())
    assert users.tally.lost() == []


def test_when_the_load_falls_one_replica_fewer_is_approved_and_goes(
    bench: Bench, users: Traffic, approver: Person
) -> None:
    users.set(QUIET)
    bench.wait(lambda: bench.rebalancing(ASKED)["decision"] == "RemoveReplica", "one fewer proposed", SEES_SECONDS)
    assert len(bench.ready_pods(ASKED)) == bench.rebalancing(ASKED)["targetReplicas"] == 2
    _approve_until(bench, approver, replicas=1)
    bench.wait(lambda: len(bench.view.all("pods", ASKED)) == 1, "one replica", GOES_SECONDS)
    log.info("%s: %s", ASKED, _last_change(bench, ASKED))
    assert _changes(bench, ASKED) == ["Add", "Remove"]


def test_no_request_was_lost(bench: Bench, short_users: Traffic, users: Traffic) -> None:
    for name, traffic in ((BATCH, short_users), (ASKED, users)):
        assert bench.view.nodes_of(name) == [L4_NODE]
        assert traffic.tally.served() > 0
        assert traffic.tally.lost() == []


def _sequences_of(bench: Bench, pod: str) -> int:
    words = bench.arguments(pod)
    return int(words[words.index("--max-num-seqs") + 1])


def _sequences_in_status(bench: Bench) -> int:
    [pool] = bench.view.pools(BATCH)
    assert pool["name"] == L4_POOL
    return int(pool["maxSequences"])


def _changes(bench: Bench, name: str) -> list[str]:
    """The kinds of changes that the live loop has made of a deployment so far."""
    return [str(each["kind"]) for each in bench.rebalancing(name).get("changes") or []]


def _last_change(bench: Bench, name: str) -> str:
    return str(bench.rebalancing(name)["lastChange"])


def _proposed(bench: Bench) -> str:
    """The id of what the live loop proposes now; empty where it proposes nothing."""
    return str(bench.rebalancing(ASKED).get("proposalId", ""))


def _asked_to_approve(bench: Bench, person: Person) -> tuple[int, str] | None:
    """The answer to an approval of what is proposed now; None where nothing is, or something else meanwhile."""
    known = _proposed(bench)
    answer = person.runs("approve", ASKED, "--proposal", known) if known else None
    return answer if answer is not None and NO_SUCH_PROPOSAL not in answer[1] else None


def _proposal(bench: Bench) -> dict[str, Any]:
    """The object with that id; empty where there is none yet."""
    return bench.view.read("placementproposals", f"{ASKED}-{_proposed(bench)}")


def _may(bench: Bench, person: Person, verb: str, plural: str) -> str:
    words = ("auth", "can-i", verb, f"{plural}.plimsoll.dev", "-n", bench.view.namespace, f"--as={person.user}")
    return bench.view.control_plane.kubectl(*words, check=False).strip()


def _has_gone(bench: Bench, pod: str) -> bool:
    return pod not in [each["metadata"]["name"] for each in bench.view.all("pods", BATCH)]


def _approve_until(bench: Bench, person: Person, *, replicas: int) -> None:
    """Approve what the loop proposes until so many replicas are wanted.

    The loop may propose the same change for another reason meanwhile, which is another proposal.
    """
    approved: set[str] = set()

    def is_carried_out() -> bool:
        known = _proposed(bench)
        if known not in approved and not _wants(bench, replicas):
            answer = _asked_to_approve(bench, person)
            approved.update([known] if answer is not None and answer[0] == 0 else [])
        return _wants(bench, replicas)

    bench.wait(is_carried_out, f"the approval for {replicas} replicas carried out", SEES_SECONDS)
    assert approved


def _wants(bench: Bench, replicas: int) -> bool:
    return bool(bench.rebalancing(ASKED)["targetReplicas"] == replicas)
