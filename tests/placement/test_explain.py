"""Every code has a sentence, and every sentence its figures."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest

from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Rejection, Remedy, Split, Suggestion
from plimsoll.domain.public_words import Reason, RemedyKind, SuggestionKind
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import (
    claimed_sentence,
    estimate_sentence,
    rejection_sentence,
    remedy_sentence,
    suggestion_sentence,
    unhealthy_sentence,
)
from tests.support.planning import H100, fleet, node, placed, request
from tests.support.tables import every_case

Numbers = dict[str, int | str]

REJECTIONS: list[tuple[Reason, Numbers, str]] = [
    (
        Reason.TOO_LITTLE_VRAM,
        {"need_bytes": 80 * GIB, "have_bytes": 72 * GIB},
        "needs 80.00 GiB per GPU, the engine may use 72.00 GiB",
    ),
    (
        Reason.KV_CACHE_TOO_SMALL,
        {"need_bytes": 80 * GIB, "have_bytes": 72 * GIB, "need_tokens": 65536, "have_tokens": 40000},
        "holds 40,000 tokens of KV cache, the load needs 65,536 (80.00 GiB per GPU, the engine may use 72.00 GiB)",
    ),
    (
        Reason.TOO_FEW_STATES,
        {"states": 614, "sequences": 1024},
        "holds the recurrent states of 614 sequences, 1024 are to run at the same time: the engine refuses to start",
    ),
    (Reason.HEADS_NOT_DIVISIBLE, {"heads": 28, "next_degree": 4}, "28 attention heads do not divide; 4 works"),
    (
        Reason.TOWER_NOT_DIVISIBLE,
        {"what": "attention heads", "size": 12, "next_degree": 4, "left_out": "spec.engine.textOnly"},
        "the tower's 12 attention heads do not divide; 4 works; spec.engine.textOnly serves without it",
    ),
    (Reason.CAPACITY_TYPE_DENIED, {"capacity": "spot"}, "is spot capacity, which spec.gpu.capacityTypes leaves out"),
    (Reason.KV_HEADS_NOT_DIVISIBLE, {"kv_heads": 10}, "10 KV heads do not divide"),
    (
        Reason.IMAGE_FOR_OTHER_VENDOR,
        {"image_vendor": "amd", "gpu_vendor": "nvidia"},
        "spec.engine.image is made for AMD GPUs, this one is NVIDIA's (spec.engine.imageVendor names the vendor)",
    ),
    (
        Reason.IMAGE_FOR_OTHER_PLATFORM,
        {"nodes": 2, "platforms": "linux/amd64"},
        "none of the 2 nodes has a platform of the image, linux/amd64 (spec.engine.platforms names them)",
    ),
    (
        Reason.IMAGE_FOR_OTHER_PLATFORM,
        {"nodes": 1, "platforms": "linux/amd64", "source": "Assumed", "image": "r/i:1", "why": ""},
        "no node has a platform of the image, linux/amd64 (assumed; spec.engine.platforms names them)",
    ),
    (
        Reason.IMAGE_FOR_OTHER_PLATFORM,
        {"nodes": 1, "platforms": "linux/amd64", "source": "Assumed", "image": "r/i:1", "why": "HTTP 401"},
        (
            "no node has a platform of the image, linux/amd64 (assumed: the index of r/i:1 could not be "
            "read: HTTP 401; spec.engine.platforms names them)"
        ),
    ),
    (
        Reason.IMAGE_FOR_OTHER_PLATFORM,
        {"nodes": 1, "platforms": "linux/arm64", "source": "Index", "image": "r/i:1", "why": ""},
        (
            "no node has a platform of the image, linux/arm64 (the index of r/i:1 names them; "
            "spec.engine.platforms replaces it)"
        ),
    ),
    (
        Reason.VOLUME_ELSEWHERE,
        {"nodes": 3, "claim": "w", "where": "topology.kubernetes.io/zone in a"},
        "none of the 3 nodes can mount the volume of claim w, which is bound to topology.kubernetes.io/zone in a",
    ),
    (
        Reason.VOLUME_IN_USE,
        {"nodes": 1, "claim": "w", "pod": "s", "node": "c"},
        "no node can mount the volume of claim w, which only pods of one node can: pod s mounts it on node c",
    ),
    (
        Reason.NODE_DISK_TOO_SMALL,
        {"nodes": 2, "least_bytes": 100 * GIB, "largest_bytes": 50 * GIB},
        (
            "none of the 2 nodes has the disk (ephemeral-storage) for the model's files, 100.00 GiB: the largest has "
            "50.00 GiB"
        ),
    ),
    (
        Reason.DRIVER_TOO_OLD,
        {"nodes": 1, "of": 3, "least": 580},
        (
            "none of the nodes that other rules leave (1 of 3) has NVIDIA driver 580 or newer, which the engine's "
            "image needs"
        ),
    ),
    (
        Reason.NODE_LEFT,
        {"nodes": 1, "of": 2, "left": "l4-0 (GpuUnusable)"},
        (
            "its pods could not run as they should on any of the nodes that other rules leave (1 of 2) lately: l4-0 "
            "(GpuUnusable)"
        ),
    ),
    (
        Reason.NODE_LEFT,
        {"nodes": 1, "left": "l4-0 (GpuUnusable)"},
        "its pods could not run as they should on the only node lately: l4-0 (GpuUnusable)",
    ),
    (
        Reason.WIDTH_NOT_DIVISIBLE,
        {"what": "intermediate_size", "width": 14338, "next_degree": 2},
        "intermediate_size 14338 does not divide; 2 works",
    ),
    (
        Reason.QUANT_BLOCK_NOT_DIVISIBLE,
        {"what": "moe_intermediate_size", "width": 192, "block": 128},
        "moe_intermediate_size leaves 192 columns a GPU, not whole blocks of 128",
    ),
    (
        Reason.QUOTA_EXCEEDED,
        {"gpus": 8, "left": 3, "resource": "nvidia.com/gpu"},
        "fits, but takes 8 GPUs and the namespace's ResourceQuota leaves 3 of nvidia.com/gpu",
    ),
    (
        Reason.QUOTA_EXCEEDED,
        {"asked_millis": 4000, "left_millis": 1500, "resource": "limits.cpu"},
        "fits, but takes 4 CPUs and the namespace's ResourceQuota leaves 1.5 of limits.cpu",
    ),
    (
        Reason.QUOTA_EXCEEDED,
        {"asked_bytes": 16 * GIB, "left_bytes": 0, "resource": "requests.memory"},
        "fits, but takes 16.00 GiB of memory and the namespace's ResourceQuota leaves 0.00 GiB of requests.memory",
    ),
    (
        Reason.HOST_MEMORY_TOO_SMALL,
        {"least_bytes": 62 * GIB, "stated_bytes": 48 * GIB, "field": "spec.podTemplate.resources.limits.memory"},
        (
            "keeps 62.00 GiB in host memory with its processes, spec.podTemplate.resources.limits.memory allows "
            "48.00 GiB"
        ),
    ),
    (
        Reason.LIMIT_RANGE_EXCEEDED,
        {
            "limit_range": "a",
            "limited": "Container",
            "rule": "default",
            "resource": "memory",
            "bound_thousandths": 512 * 1024**2 * 1000,
            "asked_thousandths": 8 * GIB * 1000,
            "asked_of": "request",
            "limit_range_2": "b",
            "limited_2": "Pod",
            "rule_2": "max",
            "resource_2": "cpu",
            "bound_thousandths_2": 1000,
            "asked_thousandths_2": 4500,
            "asked_of_2": "limit",
        },
        (
            "fits, but LimitRange a gives a Container without a limit one of 0.50 GiB of memory (default.memory) and "
            "the pod requests 8.00 GiB of memory: set spec.podTemplate.resources.limits.memory to the request or more; "
            "LimitRange b allows each Pod 1 CPU at most (max.cpu) and the pod's limit is 4.5 CPUs: lower "
            "spec.podTemplate.resources.limits.cpu"
        ),
    ),
    (
        Reason.NODE_LACKS_CPU,
        {"asked_millis": 900_000, "free_millis": 1500, "largest_millis": 192_000},
        ("fits, but a pod asks for 900 CPUs and at most 1.5 are free on a node with free GPUs (the largest has 192)"),
    ),
    (
        Reason.NODE_LACKS_MEMORY,
        {"asked_bytes": 64 * GIB, "free_bytes": 32 * GIB, "largest_bytes": 2048 * GIB, "node": "gpu-7"},
        (
            "fits, but a pod asks for 64.00 GiB of host memory and at most 32.00 GiB are free on a node with free GPUs "
            "(on gpu-7; the largest has 2048.00 GiB)"
        ),
    ),
    (Reason.NODE_LACKS_PODS, {"largest": 110}, "fits, but its nodes run as many pods as they may (110)"),
    (
        Reason.NODE_LACKS_RESOURCE,
        {"resource": "rdma/ib", "asked": 2, "free": 1, "largest": 4, "node": "a"},
        "fits, but a pod asks for 2 rdma/ib and at most 1 is free on a node with free GPUs (on a; the largest has 4)",
    ),
    (Reason.LEFT_RECENTLY, {}, "fits, but pods of this deployment found no node there within the last hour"),
    (
        Reason.MOVE_FAILED,
        {"failure": "EngineCrashed"},
        "fits, but a move there did not come up in time (EngineCrashed)",
    ),
    (
        Reason.MOVE_FAILED,
        {"failure": "EngineCrashed", "times": 1, "at": "T1", "until": "T2"},
        ("fits, but a move there did not come up in time (EngineCrashed) at T1; it is not moved there again before T2"),
    ),
    (
        Reason.MOVE_FAILED,
        {"failure": "InsufficientGpus", "times": 2, "at": "T1", "until": "T2"},
        (
            "fits, but a move there did not come up in time (InsufficientGpus) at T1, 2 times so far; it is not moved "
            "there again before T2"
        ),
    ),
    (Reason.STAGES_EXCEED_LAYERS, {"stages": 8, "layers": 4}, "cuts 4 layers into 8 stages"),
    (
        Reason.STAGES_NOT_SUPPORTED,
        {"title": "vLLM", "architecture": "Mamba2ForCausalLM"},
        "vLLM does not divide Mamba2ForCausalLM into pipeline stages",
    ),
    (
        Reason.STAGES_CUT_SHARED_LAYERS,
        {"stages": 4, "first": 8, "last": 13},
        "4 stages cut between layers 8 and 13, which share what they keep",
    ),
    (Reason.EXPERTS_NOT_DIVISIBLE, {"experts": 4, "ranks": 8}, "spreads 4 experts over 8 ranks"),
    (
        Reason.DATA_PARALLEL_NEEDS_EXPERTS,
        {"engines": 8},
        "runs 8 engines that share experts, and the model has none; replicas divide its requests as well",
    ),
    (
        Reason.DATA_PARALLEL_NOT_SUPPORTED,
        {"engines": 8, "title": "vLLM", "need": "0.14.0", "have": "0.13.0"},
        "runs 8 engines behind one server, which needs vLLM 0.14.0, and the release is 0.13.0",
    ),
    (
        Reason.CONTEXT_RANKS_NOT_DIVISIBLE,
        {"ranks": 4, "copies": 2},
        "spreads tokens over 4 ranks where 2 hold the same KV heads",
    ),
    (
        Reason.FITS_ONLY_PROBABLY,
        {"need_bytes": 70 * GIB, "have_bytes": 72 * GIB, "sure_bytes": 73 * GIB},
        (
            "fits by the estimate (70.00 GiB of 72.00 GiB per GPU), not at the upper edge of its error band "
            "(73.00 GiB); the choice fits for sure"
        ),
    ),
    (
        Reason.FITS_ONLY_PROBABLY,
        {
            "need_bytes": 70 * GIB,
            "have_bytes": 72 * GIB,
            "sure_bytes": 71 * GIB,
            "left_bytes": GIB,
            "outside_bytes": 2 * GIB,
        },
        (
            "leaves 1.00 GiB per GPU outside the engine's budget, where CUDA, communication and CUDA graphs may take "
            "2.00 GiB; the choice fits for sure"
        ),
    ),
    (
        Reason.PRECISION_NOT_SUPPORTED,
        {"what": "precision bf16", "need": "compute capability 8.0", "have": "7.5"},
        "precision bf16 needs compute capability 8.0, the GPU has 7.5",
    ),
    (Reason.GPU_TYPE_DENIED, {"field": "spec.gpu.deny"}, "ruled out by spec.gpu.deny"),
    (Reason.GPU_TYPE_NOT_FORCED, {"forced": "l4-24gb"}, "spec.overrides.gpuType asks for l4-24gb"),
    (Reason.SPLIT_NOT_FORCED, {"forced": 4}, "spec.overrides.tensorParallel asks for 4"),
    (Reason.TOO_MANY_GPUS_PER_REPLICA, {"gpus": 4, "limit": 2}, "takes 4 GPUs, spec.gpu.maxPerReplica allows 2"),
    (Reason.NODE_TOO_SMALL, {"gpus": 8, "largest": 4}, "takes 8 GPUs on one node, the largest has 4"),
    (
        Reason.NODES_NOT_SELECTED,
        {"nodes": 3},
        "none of the 3 nodes matches spec.podTemplate.nodeSelector and tolerations",
    ),
    (
        Reason.NODE_TOO_SMALL,
        {"gpus": 8, "largest": 6, "unhealthy": 2, "node": "h"},
        "takes 8 GPUs on one node, the largest has 6 (node h has 2 more, which are unhealthy)",
    ),
    (
        Reason.GPUS_TAKEN,
        {"gpus": 2, "free": 1, "unhealthy": 1, "node": "h"},
        "fits, but takes 2 GPUs on one node and at most 1 is free (node h has 1 more, which is unhealthy)",
    ),
    (Reason.GPUS_TAKEN, {"gpus": 2, "free": 1}, "fits, but takes 2 GPUs on one node and at most 1 is free"),
    (
        Reason.TOO_EXPENSIVE,
        {"price": "13.76", "limit": "9.5"},
        "costs $13.76/h, spec.gpu.maxHourlyPrice allows $9.50/h",
    ),
    (
        Reason.PRICE_UNKNOWN,
        {"limit": "9.50"},
        "has no price, spec.gpu.maxHourlyPrice allows $9.50/h: set one in the ConfigMap",
    ),
    (
        Reason.COSTS_MORE,
        {"price": "6.88", "best_price": "1.86", "gpus": 1, "best_gpus": 1},
        "fits at $6.88/h, the choice costs $1.86/h",
    ),
    (
        Reason.ROOM_FOR_FEWER,
        {"price": "1.86", "room": 1, "best_room": 3},
        "fits at $1.86/h, but has room for 1 replica where the choice takes 3",
    ),
    (
        Reason.TOO_SLOW,
        {"figure": "TPOT", "milliseconds": 140, "limit": 50},
        "has a TPOT of 140 ms at the declared load, spec.slo allows 50 ms",
    ),
    (
        Reason.TOO_SLOW,
        {"figure": "TTFT", "milliseconds": 6000, "limit": 2000, "nearest": "h100-sxm-80gb x 2"},
        "has a TTFT of 6,000 ms at the declared load, spec.slo allows 2,000 ms; h100-sxm-80gb x 2 keeps it",
    ),
    (
        Reason.PROMISE_NOT_SURE,
        {"ttft": 474, "ttft_high": 657, "tpot": 23, "tpot_high": 26},
        (
            "keeps spec.slo by the estimate (TTFT 474 ms, TPOT 23 ms), and not at the upper quarter of its error band "
            "(TTFT 657 ms, TPOT 26 ms)"
        ),
    ),
    (
        Reason.SPEED_NOT_MEASURED,
        {"price": "1.81", "best_price": "6.16", "tpot": 46, "best_tpot": 23, "vendor": "AMD"},
        (
            "fits at $1.81/h while the choice costs $6.16/h: 46 ms a token instead of 23; the speed of GPUs "
            "of AMD is not validated (spec.gpu.vendors with AMD, or spec.objective Batch, permits it)"
        ),
    ),
    (
        Reason.SPOT_NOT_ASKED,
        {"price": "1.10", "best_price": "3.00"},
        (
            "fits at $1.10/h on spot nodes, which the cloud may take back at any time, while the choice costs $3.00/h; "
            "spec.gpu.capacityTypes with Spot permits it"
        ),
    ),
    (
        Reason.TOO_MANY_ON_SPOT,
        {"price": "1.10", "least": 2},
        (
            "fits at $1.10/h on spot nodes, which the cloud may take back at any time; 2 replicas at least stay on "
            "nodes on demand (spec.rebalancing.minReplicas says how many, spec.gpu.capacityTypes with Spot alone "
            "permits all)"
        ),
    ),
    (
        Reason.SLOWER_FOR_ITS_PRICE,
        {"price": "4.62", "best_price": "12.31", "tpot": 118, "best_tpot": 19, "worth": "9.91"},
        (
            "fits at $4.62/h while the choice costs $12.31/h: 118 ms a token instead of 19; spec.objective counts the "
            "time of users as $9.91/h"
        ),
    ),
    (
        Reason.COSTS_MORE,
        {
            "price": "6.16",
            "best_price": "1.81",
            "gpus": 2,
            "best_gpus": 1,
            "tpot": 23,
            "best_tpot": 46,
            "million": "5.00",
            "best_million": "2.90",
            "measured": "this",
        },
        (
            "fits at $6.16/h, the choice costs $1.81/h: 23 ms a token instead of 46, $5.00 a million tokens "
            "instead of $2.90, only the speed here is validated"
        ),
    ),
    (
        Reason.SCARCE_FOR_OTHERS,
        {"price": "2.24", "best_price": "6.88", "other": "qwen-32b", "saved": "31.05"},
        "fits at $2.24/h where the choice costs $6.88/h, but its free GPUs save $31.05/h for qwen-32b",
    ),
    (
        Reason.SCARCE_FOR_OTHERS,
        {"price": "2.24", "best_price": "6.88"},
        "fits at $2.24/h where the choice costs $6.88/h, but its free GPUs are the only ones for another deployment",
    ),
    (
        Reason.OBSERVED_TOO_SMALL,
        {"need_tokens": 65536, "have_tokens": 40000},
        "a running engine got 40,000 tokens of KV cache there, the load needs 65,536",
    ),
    (
        Reason.NARROW_CACHE_SAVES_LITTLE,
        {"price": "1.10", "best_price": "1.20"},
        "fits with an fp8 KV cache at $1.10/h, the choice keeps 16 bits at $1.20/h: a tenth or less is saved",
    ),
    (
        Reason.START_FAILED,
        {},
        "an engine of this deployment ran out of memory there when it started",
    ),
    (
        Reason.PLACEMENT_KEPT,
        {"price": "1.86", "gpus": 1},
        "fits at $1.86/h with 1 GPU, but what runs is kept: moving would restart it",
    ),
    (
        Reason.KEPT_TO_AVOID_MOVE,
        {"price": "1.86", "saved": "4.88", "charge": "0.308"},
        "fits at $1.86/h and has room, which would save $4.88/h, but what runs is kept: moving costs $0.31 once",
    ),
]

REMEDIES: list[tuple[RemedyKind, Numbers, str]] = [
    (
        RemedyKind.RAISE_QUOTA,
        {"resource": "nvidia.com/gpu", "more": 5, "gpus": 8, "gpu_type": H100},
        "raise the ResourceQuota's requests.nvidia.com/gpu by 5: it fits on 8 h100-sxm-80gb",
    ),
    (
        RemedyKind.RAISE_QUOTA,
        {"requests.cpu": 2500, "limits.memory": 10 * GIB - 1, "gpus": 1, "gpu_type": H100},
        "raise the ResourceQuota's requests.cpu by 2.5 and limits.memory by 10Gi: it fits on 1 h100-sxm-80gb",
    ),
    (
        RemedyKind.LOWER_REQUESTS,
        {"cpu_millis": 1500, "memory_bytes": 8 * GIB, "gpu_type": H100},
        ("lower spec.podTemplate.resources.requests to 1.5 CPUs and 8.00 GiB of memory: it fits on h100-sxm-80gb then"),
    ),
    (
        RemedyKind.LESS_HOST_CACHE,
        {"from_bytes": 600 * GIB, "host_bytes": 504 * GIB, "gpu_type": H100},
        "lower spec.kvCache.hostMemory from 600Gi to 504Gi: it fits on h100-sxm-80gb then",
    ),
    (
        RemedyKind.LESS_HOST_CACHE,
        {"host_bytes": 0, "gpu_type": H100},
        "remove spec.kvCache.hostMemory: it fits on h100-sxm-80gb then",
    ),
    (
        RemedyKind.CACHE_ON_CLAIM,
        {"least_bytes": 100 * GIB + 1, "gpu_type": "l4-24gb"},
        "name a claim of 101Gi or more in spec.podTemplate.modelCache.claimName: it fits on l4-24gb then",
    ),
    (
        RemedyKind.UPDATE_DRIVER,
        {"least": 580, "gpu_type": "l4-24gb"},
        "update the NVIDIA driver of nodes with l4-24gb to 580 or newer: it fits there then",
    ),
    (
        RemedyKind.FREE_CLAIM,
        {"claim": "weights", "pod": "shell", "gpu_type": "l4-24gb"},
        "end pod shell, or name a claim other than weights: it fits on l4-24gb then",
    ),
    (
        RemedyKind.STATE_LIMITS,
        {"cpu_millis": 1500, "memory_bytes": 8 * GIB + 512 * 1024**2, "gpu_type": H100},
        "set spec.podTemplate.resources.limits to {cpu: 1.5, memory: 8704Mi}: it fits on h100-sxm-80gb then",
    ),
    (
        RemedyKind.FREE_GPUS,
        {"gpu_type": "l4-24gb", "gpus": 2},
        "free 2 l4-24gb on one node: it fits there once they are free",
    ),
    (RemedyKind.REDUCE_CONTEXT, {"from": 8192, "to": 4096}, "lower spec.contextLength from 8192 to 4096"),
    (RemedyKind.REDUCE_CONCURRENCY, {"from": 16, "to": 7}, "lower spec.concurrency from 16 to 7"),
    (RemedyKind.REDUCE_SEQUENCES, {"from": 1024, "to": 614}, "lower spec.engine.maxSequences from 1024 to 614"),
    (RemedyKind.KV_CACHE_FP8, {}, "set spec.kvCache.precision to fp8"),
    (RemedyKind.WEIGHTS_FP8, {}, "set spec.precision to fp8, or use an FP8 checkpoint"),
    (RemedyKind.WEIGHTS_FP16, {}, "set spec.precision to fp16: these GPUs have no bf16"),
    (
        RemedyKind.ADD_NODES,
        {
            "group": "big",
            "nodes": 2,
            "gpu_type": "l4-24gb",
            "gpus": 4,
            "price": "3.20",
            "replicas": 5,
            "missing": 5,
        },
        "add 2 nodes of the group big (4 l4-24gb each, $3.20/h together): every replica fits there",
    ),
    (RemedyKind.ADD_GPUS, {"gpu_type": "l4-24gb", "gpus": 2}, "add a node with 2 l4-24gb"),
    (
        RemedyKind.RELAX_CONSTRAINTS,
        {"gpu_type": "l4-24gb", "gpus": 2},
        "drop spec.gpu, spec.overrides or the node selector: 2 l4-24gb would do",
    ),
]


@every_case(("reason", "numbers", "sentence"), REJECTIONS, ids=[each[0] for each in REJECTIONS])
def test_a_rejection_is_a_sentence_with_its_figures(reason: Reason, numbers: Numbers, sentence: str) -> None:
    assert rejection_sentence(Rejection(H100, Split(1), reason, tuple(numbers.items()))) == sentence


@every_case(("kind", "numbers", "sentence"), REMEDIES, ids=[each[0] for each in REMEDIES])
def test_a_remedy_is_an_instruction_with_its_figures(kind: RemedyKind, numbers: Numbers, sentence: str) -> None:
    assert remedy_sentence(Remedy(kind, tuple(numbers.items()))) == sentence


def test_no_code_is_without_a_sentence() -> None:
    assert {reason for reason, _, _ in REJECTIONS} == set(Reason)
    assert {kind for kind, _, _ in REMEDIES} == set(RemedyKind)


def test_a_type_without_a_price_is_told_in_words() -> None:
    numbers = (("price", "unknown"), ("best_price", "1.86"), ("gpus", 1), ("best_gpus", 1))
    said = rejection_sentence(Rejection(H100, Split(1), Reason.COSTS_MORE, numbers))
    assert said == "fits at no known price, the choice costs $1.86/h"


def test_at_the_same_price_the_tie_is_explained() -> None:
    numbers = (("price", "2"), ("best_price", "2"), ("gpus", 2), ("best_gpus", 1))
    said = rejection_sentence(Rejection(H100, Split(2), Reason.COSTS_MORE, numbers))
    assert said == "fits at the same price with 2 GPUs, the choice takes 1 or sorts first"


def test_an_estimate_is_told_term_by_term_and_the_terms_add_up() -> None:
    said = estimate_sentence(placed(request(), fleet(node("h", H100))).choice.estimate)
    *terms, total, budget = (float(figure) for figure in re.findall(r"([\d.]+) GiB", said))
    assert len(terms) == 6
    assert sum(terms) == pytest.approx(total, abs=0.03)
    assert total < budget


def test_each_term_has_its_own_figure_and_a_learned_one_may_be_negative() -> None:
    where = fleet(node("h", H100))
    kind = request().engine_kind(H100, Split(1))
    for learned, words in ((-GIB // 2, "-0.50"), (GIB // 4, "0.25")):
        wanted = request(corrections=(Correction(kind, rest_bytes=learned),))
        figures = placed(wanted, where).choice.estimate
        named = (
            ("weights", figures.weights_bytes),
            ("KV cache", figures.kv_cache_bytes),
            ("activations", figures.activations_bytes),
            ("CUDA graphs", figures.cuda_graphs_bytes),
            ("overhead", figures.overhead_bytes),
        )
        terms = " + ".join(f"{name} {size / GIB:.2f} GiB" for name, size in named)
        assert estimate_sentence(figures) == (
            f"{terms} + learned from engines {words} GiB + margin {figures.margin_bytes / GIB:.2f} GiB "
            f"= {figures.computed_bytes / GIB:.2f} GiB of {figures.budget_bytes / GIB:.2f} GiB per GPU"
        )


SUGGESTIONS: list[tuple[SuggestionKind, Numbers, str]] = [
    (SuggestionKind.NARROW_KV_CACHE, {}, "set spec.kvCache.precision to fp8"),
    (
        SuggestionKind.EXPECTED_LENGTHS,
        {"prompt": 800, "output": 200},
        (
            "if requests have 800 prompt and 200 output tokens on average or fewer, set spec.expectedTokens to "
            "prompt 800 and output 200"
        ),
    ),
    (
        SuggestionKind.OTHER_CHECKPOINT,
        {"model": "Qwen/Qwen3-8B-FP8", "precision": "fp8"},
        "set spec.model.name to Qwen/Qwen3-8B-FP8 and spec.precision to auto (fp8)",
    ),
]


@pytest.mark.parametrize(("kind", "numbers", "change"), SUGGESTIONS, ids=[each[0] for each in SUGGESTIONS])
def test_a_suggestion_says_change_saving_speed_and_risk(kind: SuggestionKind, numbers: Numbers, change: str) -> None:
    figures = tuple({**numbers, "place": "l4-24gb x 1", "gpus": 3, "tpot": 41, "tpot_now": 33}.items())
    saving = suggestion_sentence(Suggestion(kind, figures, Decimal("1.5")))
    start = f"{change}: it then fits on l4-24gb x 1, which saves $1.50/h; 41 ms a token instead of 33. Risk: "
    assert saving.startswith(start)
    assert saving.endswith(".")
    assert "which takes 3 GPUs less;" in suggestion_sentence(Suggestion(kind, figures))


def test_every_suggestion_has_a_sentence() -> None:
    assert {kind for kind, _, _ in SUGGESTIONS} == set(SuggestionKind)


def test_unhealthy_gpus_are_counted_and_the_first_nodes_named() -> None:
    broken = {"a": 1, "b": 2, "c": 7, "d": 1, "e": 1}
    nodes = [replace(node(name, H100, 8 - less), unhealthy=less) for name, less in broken.items()]
    assert unhealthy_sentence(()) == ""
    assert unhealthy_sentence(nodes[:1]) == (
        "1 GPU is left out: on a 1 of 8 nvidia.com/gpu is unhealthy (kubectl describe node a)."
    )
    assert unhealthy_sentence(nodes[:2]).startswith("3 GPUs are left out: on a 1 of 8 nvidia.com/gpu is unhealthy (")
    assert "; on b 2 of 8 nvidia.com/gpu are unhealthy (kubectl describe node b)." in unhealthy_sentence(nodes[:2])
    assert unhealthy_sentence(nodes).endswith("(kubectl describe node c); 2 more nodes like that.")


def test_claimed_gpus_are_counted_and_the_first_nodes_named() -> None:
    nodes = [replace(node(name, H100, 8, held=2), claimed=2) for name in "abcd"]
    assert claimed_sentence(()) == ""
    assert claimed_sentence(nodes[:1]) == (
        "2 GPUs on a count as taken: ResourceClaims hold them, and a device plugin offers them, too (kubectl get "
        "resourceclaims -A)."
    )
    assert claimed_sentence(nodes).startswith("8 GPUs on a, b, c and 1 more node count as taken")
