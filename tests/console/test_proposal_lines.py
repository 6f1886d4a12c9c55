"""The figures of a proposal, and the change of the spec that asks for the same."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.v1alpha1.inbox import ProposalContent
from plimsoll.console.views.proposals.content import content_of
from plimsoll.console.views.proposals.lines import ProposalLine, lines_of
from plimsoll.console.views.proposals.page import parts_of, proposal_of
from plimsoll.console.views.proposals.spec_change import spec_change_of
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from tests.support.proposals import ID, NOW, place, proposal
from tests.support.tables import every_case

A100, L4 = "a100-sxm-80gb", "l4-24gb"
TOUCH = {"deployment": "embed", "gpuType": A100, "replicas": 1, "action": "moves from a to b"}
SPEC = {"concurrency": 4, "replicas": 1}
OF_ALL = {"totalConcurrency": 40}


def fields_of(**more: Any) -> ProposalContent:
    content = content_of(proposal(**more))
    assert content.complaints == ()
    return content.fields


def fleet_of(**free: int) -> Fleet:
    """A node of 8 GPUs for each type, with underscores for dashes in its name."""
    types = {each.name: each for each in load_gpu_types()}
    return Fleet(
        tuple(
            GpuNode(name, types[name.replace("_", "-")], "nvidia.com/gpu", ("gpu", name), allocatable=8, held=8 - count)
            for name, count in free.items()
        )
    )


def line(name: str, fleet: Fleet | None = None, **more: Any) -> ProposalLine | None:
    return next((each for each in lines_of(fields_of(**more), fleet) if each.name == name), None)


def test_free_gpus_are_those_of_the_fleet_before_and_after() -> None:
    assert line(f"{A100} free", fleet_of(a100_sxm_80gb=6)) == ProposalLine(f"{A100} free", "6", "5")
    two_each = {"from": [place(tensorParallel=2)], "to": [place(tensorParallel=2, replicas=2)]}
    assert line(f"{A100} free", fleet_of(a100_sxm_80gb=6), **two_each) == ProposalLine(f"{A100} free", "6", "4")


def test_a_move_gives_gpus_back_where_it_leaves() -> None:
    move = {"change": "Move", "to": [place(L4)]}
    fleet = fleet_of(a100_sxm_80gb=6, l4_24gb=3)
    assert line(f"{A100} free", fleet, **move) == ProposalLine(f"{A100} free", "6", "7")
    assert line(f"{L4} free", fleet, **move) == ProposalLine(f"{L4} free", "3", "2")
    assert line("GPUs of a replica", fleet, **move) == ProposalLine(
        "GPUs of a replica", f"{A100} \u00d7 1", f"{L4} \u00d7 1"
    )


def test_without_the_right_to_list_nodes_free_gpus_are_unknown_and_never_0() -> None:
    found = line(f"{A100} free")
    assert found is not None
    assert (found.before, found.after) == ("unknown", "unknown")
    assert found.note.startswith("takes 1; ")


def test_too_few_free_gpus_are_said_and_so_is_room_that_others_make() -> None:
    none = fleet_of(a100_sxm_80gb=0)
    assert line(f"{A100} free", none) == ProposalLine(f"{A100} free", "0", "too few", "takes 1")
    assert line(f"{A100} free", none, touches=[TOUCH]) == ProposalLine(
        f"{A100} free", "0", "unknown", "takes 1; others make room first"
    )


def test_the_cache_after_the_change_is_only_said_for_equal_replicas() -> None:
    found = line("KV cache in use")
    assert found is not None
    assert (found.before, found.after) == ("93 %", "46 %")
    moved = line("KV cache in use", change="Move", to=[place(L4, replicas=2)])
    assert moved == ProposalLine("KV cache in use", "93 %", "unknown")
    assert line("KV cache in use", figures=[]) is None
    assert line("KV cache in use", figures=[{"name": "kv_percent", "value": "lots"}]) is None


@every_case(
    ("bill", "expected"),
    [
        ({"before": "3.43", "after": "6.86"}, ProposalLine("price per hour", "$3.43", "$6.86", "+$3.43/h")),
        ({"before": "6.86", "after": "3.43"}, ProposalLine("price per hour", "$6.86", "$3.43", "-$3.43/h")),
        ({"after": "6.86"}, ProposalLine("price per hour", "unknown", "$6.86")),
        ({}, ProposalLine("price per hour", "unknown", "unknown")),
        ({"before": "Infinity", "after": "1e999999"}, ProposalLine("price per hour", "$Infinity", "$1e999999")),
        ({"before": "3.43", "after": "3.43"}, None),
    ],
    ids=["more", "less", "unknown before", "unknown", "no price", "equal"],
)
def test_the_price_is_said_before_and_after_and_unknown_is_no_0(
    bill: dict[str, str], expected: ProposalLine | None
) -> None:
    assert line("price per hour", bill={"summary": "", **bill}) == expected


def test_settings_and_latency_are_said_where_they_change() -> None:
    settings: dict[str, Any] = {
        "from": [place(settings={"maxNumSeqs": 64})],
        "to": [place(settings={"maxNumSeqs": 128})],
    }
    assert line("requests at once of an engine", **settings) == ProposalLine(
        "requests at once of an engine", "64", "128"
    )
    speeds = {"before": {"ttftMilliseconds": 900}, "after": {"ttftMilliseconds": 1400}}
    found = line("first token", latency=speeds)
    assert found is not None
    assert (found.before, found.after) == ("900 ms", "1,400 ms")
    assert line("first token") is None


def startup(**more: Any) -> str:
    return proposal_of(proposal(**more), None, SPEC, NOW).startup


def test_the_start_up_is_the_longest_that_was_seen() -> None:
    assert startup(startupSeconds=240) == "A new replica serves after about 4 min, the longest start-up that was seen."
    seconds = [{"name": "seconds", "value": "240"}]
    assert startup(figures=seconds, touches=[TOUCH]) == "A new replica serves after about 240 s."


def test_an_unknown_start_up_is_said_and_one_that_does_not_come_is_not() -> None:
    seconds = [{"name": "seconds", "value": "240"}]
    assert "is unknown: no start-up was seen yet" in startup()
    assert "is unknown" in startup(figures=seconds)  # of a forecast, not of a start-up
    assert startup(change="RemoveReplica") == ""


def test_without_nodes_the_free_gpus_are_those_of_when_it_was_proposed() -> None:
    held: dict[str, Any] = {"gpus": [{"gpuType": A100, "before": 1, "after": 2, "free": 6}]}
    found = line(f"{A100} free", **held)
    assert found is not None
    assert (found.before, found.after) == ("6", "5")
    assert found.note.startswith("when it was proposed")
    few = line(f"{A100} free", gpus=[{**held["gpus"][0], "free": 0}])
    assert few is not None
    assert (few.before, few.after) == ("0", "too few")
    assert few.note.startswith("takes 1; when it was proposed")
    assert line(f"{A100} free", fleet_of(a100_sxm_80gb=3), **held) == ProposalLine(f"{A100} free", "3", "2")


def written(spec: dict[str, Any], **more: Any) -> Any:
    return yaml.safe_load(spec_change_of(fields_of(**more), spec).yaml)


def test_another_number_of_replicas_is_written_where_the_spec_has_it() -> None:
    assert written(SPEC) == {"spec": {"replicas": 2}}
    assert written(OF_ALL) == {"spec": {"minReplicas": 2}}
    fewer = spec_change_of(fields_of(change="RemoveReplica", to=[place(replicas=1)]), OF_ALL)
    assert (fewer.yaml, "The spec cannot say fewer" in fewer.note) == ("", True)


def test_a_move_is_written_as_overrides_where_they_can_say_it() -> None:
    assert written(SPEC, change="Move", to=[place(L4, tensorParallel=2)]) == {
        "spec": {"overrides": {"gpuType": L4, "tensorParallel": 2}}
    }
    assert written(SPEC, change="Move", to=[place(L4, replicas=3)])["spec"]["replicas"] == 3
    for to in (
        [place(L4), place()],
        [place(L4, pipelineParallel=2)],
        [place(L4, dataParallel=2)],
        [place(L4, expertParallel=True)],
        [place(L4, capacityType="Spot")],
    ):
        change = spec_change_of(fields_of(change="Move", to=to), SPEC)
        assert (change.yaml, "cannot be written there" in change.note) == ("", True), to


def test_other_settings_are_written_where_all_engines_are_alike() -> None:
    retune = {"change": "Retune", "from": [place(settings={"maxNumSeqs": 64, "maxNumBatchedTokens": 8192})]}
    to = place(settings={"maxNumSeqs": 128, "maxNumBatchedTokens": 8192})
    assert written(SPEC, **retune, to=[to]) == {"spec": {"engine": {"maxSequences": 128}}}
    for other in ([to, to], [{**to, "dataParallel": 2}], [place()]):
        assert spec_change_of(fields_of(**retune, to=other), SPEC).yaml == "", other


@pytest.mark.parametrize("gpu_type", ["A100; rm -rf", "x: {}", "\u0000"])
def test_what_the_api_would_refuse_is_not_written(gpu_type: str) -> None:
    change = spec_change_of(fields_of(change="Move", to=[place(gpu_type)]), SPEC)
    assert (change.yaml, "The API does not take" in change.note) == ("", True)


def test_an_unknown_change_is_said_to_be_unknown() -> None:
    assert "not known here" in spec_change_of(fields_of(change="Dance"), SPEC).note


def test_a_name_is_taken_apart_only_where_it_ends_with_an_id() -> None:
    assert parts_of(f"chat-{ID}") == ("chat", ID)
    assert parts_of(f"my-chat-{ID}") == ("my-chat", ID)
    for name in ("chat", ID, f"-{ID}", "chat-4F0C8A1D92BE", "chat-4f0c8a1d92b"):
        assert parts_of(name) == ("", ""), name
