"""The tables of an estimate and of rejections, row by row."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

from rich.console import Console

from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.api.v1alpha1.status import EstimateStatus
from plimsoll.app.review.values import Bill, Review
from plimsoll.cli.plans.review import others_text
from plimsoll.cli.plans.tables import print_details, print_estimate
from plimsoll.domain.units import GIB
from plimsoll.status.record.reading import read, whole_status
from tests.status.test_record_reading import ESTIMATE, GOOD

FULL = {
    **ESTIMATE,
    "pipelineParallel": 3,
    "weightsBytes": 2 * GIB,
    "adaptersBytes": 3 * GIB,
    "kvCacheBytes": 4 * GIB,
    "activationsBytes": 5 * GIB,
    "cudaGraphsBytes": 6 * GIB,
    "overheadBytes": 8 * GIB,
    "learnedBytes": -GIB,
    "marginBytes": 8 * GIB,
    "slackBytes": 9 * GIB,
    "expectedBytes": 27 * GIB,
    "computedBytes": 35 * GIB,
    "overrideBytes": 70 * GIB,
    "budgetBytes": 80 * GIB,
    "fit": "Probable",
    "kvNeededTokens": 11,
    "kvCapacityTokens": 12,
    "kvBytesPerToken": 13,
}


def printed(estimate: dict[str, Any]) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    print_estimate(console, EstimateStatus.model_validate(estimate))
    return lines_of(console)


def lines_of(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_an_estimate_is_printed_term_by_term() -> None:
    assert printed(FULL) == [
        "One GPU of h100-sxm-80gb at tensor parallel 1, 3 stages:",
        "TERM GiB",
        "weights 2.00",
        "LoRA slots 3.00",
        "KV cache 4.00",
        "activations 5.00",
        "CUDA graphs 6.00",
        "overhead 8.00",
        "learned -1.00",
        "margin 8.00",
        "needed 35.00",
        "needed, by override 70.00",
        "the engine may use 80.00",
        "It fits only probably: expected 27.00 GiB, between 18.00 and 35.00.",
        (
            "KV cache: 11 tokens needed, 12 would fit. "
            "One more token in all layers with attention takes 13 bytes of a GPU."
        ),
    ]


def test_what_an_estimate_does_not_have_is_left_out_or_follows_from_the_rest() -> None:
    missing = {"pipelineParallel", "adaptersBytes", "learnedBytes", "slackBytes", "expectedBytes", "overrideBytes"}
    lines = printed({name: value for name, value in FULL.items() if name not in missing})
    assert lines[0] == "One GPU of h100-sxm-80gb at tensor parallel 1:"
    assert not [line for line in lines if line.startswith(("LoRA", "learned", "needed, by override"))]
    assert "It fits only probably: expected 27.00 GiB, between 27.00 and 35.00." in lines
    unknown = printed({name: value for name, value in FULL.items() if name != "fit"})
    assert not [line for line in unknown if line.startswith("It ")]


def test_details_name_warnings_rejections_and_remedies() -> None:
    console = Console(file=io.StringIO(), width=120)
    stages = {**GOOD["rejections"][0], "pipelineParallel": 2}
    large = {**GOOD["rejections"][0], "tensorParallel": 4, "reason": "NodeTooSmall"}
    print_details(console, whole_status(read({**GOOD, "rejections": [GOOD["rejections"][0], large, stages]})))
    lines = lines_of(console)
    assert "Warning: careful" in lines
    assert lines[-8:] == [
        "Not taken (of several TP, the first one's figures; -o json has all):",
        "GPU TP REASON WHY",
        "l4-24gb 1, 1 x PP2 TooLittleVram no",
        "l4-24gb 4 NodeTooSmall no",
        "What would help:",
        "- yes",
        "What would make it cheaper:",
        "- yes",
    ]
    bare = Console(file=io.StringIO(), width=120)
    print_details(bare, InferenceDeploymentStatus())
    assert lines_of(bare) == []


def test_host_memory_is_printed_term_by_term_and_what_the_user_requests_instead() -> None:
    terms = [
        {"name": "processes", "sizeBytes": 3 * GIB, "detail": "a"},
        {"name": "weights", "sizeBytes": 40 * GIB, "detail": "b"},
    ]
    host = {"cpuMillis": 2500, "memoryBytes": 43 * GIB, "sharedMemoryBytes": 2 * GIB, "terms": terms}
    own = {"requestedCpuMillis": 2500, "requestedMemoryBytes": 43 * GIB}
    lowered = {"requestedCpuMillis": 500, "requestedMemoryBytes": 42 * GIB}
    said = "Host of one replica: 2.5 CPUs and 43 GiB of memory = processes 3.00 + weights 40.00 GiB, rounded up."
    for requested, line in ((own, said), (lowered, f"{said} Requested by spec.podTemplate: 0.5 CPUs and 42 GiB.")):
        console = Console(file=io.StringIO(), width=200)
        placement = {**GOOD["placement"], "host": host | requested}
        print_details(console, whole_status(read({**GOOD, "placement": placement})))
        assert line in lines_of(console)


def test_what_is_not_shown_is_counted_and_a_refused_spec_is_not_called_without_a_place() -> None:
    nothing = Bill(Decimal(0), Decimal(0))
    assert others_text(Review((), nothing)) == ""
    assert others_text(Review((), nothing, others=1)) == "1 more InferenceDeployment of the cluster stays as it is."
    assert others_text(Review((), nothing, others=3, others_unserved=2)) == (
        "3 more InferenceDeployments of the cluster stay as they are, 2 of them waiting or refused."
    )
