"""Sentences for the codes and numbers of rejections, remedies and estimates. No other module writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

from plimsoll.domain.cluster.containers import MILLI
from plimsoll.domain.cluster.fleet import GpuNode
from plimsoll.domain.cluster.host import amount_words, is_in_bytes
from plimsoll.domain.cluster.limit_ranges import LimitRule
from plimsoll.domain.cluster.quota_accounts import resource_in
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Rejection, Remedy, Split, Suggestion
from plimsoll.domain.decisions.terms import LEARNED
from plimsoll.domain.engines.images import PlatformSource
from plimsoll.domain.kubernetes_names import OF_CPU, OF_MEMORY, OF_PODS
from plimsoll.domain.public_words import MAY_PASS, WISHED, Numbers, Reason, RemedyKind, SuggestionKind
from plimsoll.domain.units import GIB, MIB, agreed, ceil_div, counted, counted_of, format_gib, format_price, grouped

Figures = dict[str, int | str]

_OF_HOST = OF_CPU | OF_MEMORY


_TERM_WORDS = {LEARNED: "learned from engines"}
"""The words for terms whose title is not clear in a sentence."""


def place_words(gpu_type: str, split: Split) -> str:
    """Return a short name: ``l4-24gb x 2``, ``l4-24gb x 2 x 4 stages``, ``l4-24gb x 8 with whole experts``.

    With data parallelism it says the GPUs and how they are used: ``l4-24gb x 8 with data-parallel attention``.
    """
    if split.data_parallel > 1:
        return f"{gpu_type} x {split.gpus} with data-parallel attention"
    stages = "" if split.pipeline_parallel == 1 else f" x {split.pipeline_parallel} stages"
    experts = " with whole experts" if split.expert_parallel else ""
    return f"{gpu_type} x {split.tensor_parallel}{stages}{experts}"


def rejection_sentence(rejection: Rejection) -> str:
    """Return why one candidate was not taken, with its numbers. A sentence about a draft names the draft."""
    figures = dict(rejection.numbers)
    sentence = _REJECTIONS[rejection.reason](figures)
    return f"the draft {figures['draft']}: {sentence}" if "draft" in figures else sentence


def nearest_sentence(rejections: Sequence[Rejection]) -> str:
    """Return a sentence about the rejection that came closest; empty if there is none."""
    nearest = _nearest(rejections)
    return "" if nearest is None else f"{place_words(nearest.gpu_type, nearest.split)} {rejection_sentence(nearest)}"


def one_node_sentence(rejections: Sequence[Rejection]) -> str:
    """Return that GPUs of several nodes do not add up, if a whole node has too little memory; empty if it has not."""
    nearest = _nearest(rejections)
    if nearest is None or nearest.reason not in (Reason.TOO_LITTLE_VRAM, Reason.KV_CACHE_TOO_SMALL):
        return ""
    is_whole = nearest.split.shape.gpus_per_pod >= _WHOLE_NODE
    return "A replica uses the GPUs of one node only: several nodes together do not hold one." if is_whole else ""


_WHOLE_NODE = 8
"""The GPUs of the largest usual node, and of the largest split that is judged."""


def _nearest(rejections: Sequence[Rejection]) -> Rejection | None:
    return min(rejections, key=lambda rejection: (*_shortfall(rejection), rejection.gpu_type), default=None)


def _shortfall(rejection: Rejection) -> tuple[int, float]:
    """Return the sort key of rejections: the smallest shortfall is the most useful one to report."""
    figures = dict(rejection.numbers)
    if rejection.reason in MAY_PASS:
        return (0, float(MAY_PASS.index(rejection.reason)))
    if rejection.reason is Reason.LIMIT_RANGE_EXCEEDED:  # it fits, and somebody has to change a figure
        return (0, float(len(MAY_PASS)))
    if "need_bytes" in figures and "have_bytes" in figures:
        return (1, int(figures["need_bytes"]) / max(1, int(figures["have_bytes"])))
    is_said = rejection.reason is Reason.NODE_LEFT  # the message says already what happened there
    return (4 if is_said else 3 if rejection.reason in WISHED else 2, 0.0)


def unhealthy_words(node: GpuNode) -> str:
    """Return how many GPUs of a node are unhealthy, and who says more: ``1 of 8 nvidia.com/gpu is unhealthy (...)``."""
    number, resource = node.unhealthy, node.resource
    had, verb = node.allocatable + number, agreed(number, "is", "are")
    return f"{number} of {had} {resource} {verb} unhealthy (kubectl describe node {node.name})"


def unhealthy_sentence(nodes: Sequence[GpuNode]) -> str:
    """Return which GPUs of these nodes are left out because they are unhealthy; empty if there is no such node."""
    if not nodes:
        return ""
    gpus = sum(node.unhealthy for node in nodes)
    named = "; ".join(f"on {node.name} {unhealthy_words(node)}" for node in nodes[:_MOST_NODES])
    more = f"; {counted(len(nodes) - _MOST_NODES, 'more node')} like that" if len(nodes) > _MOST_NODES else ""
    return f"{counted(gpus, 'GPU')} {agreed(gpus, 'is', 'are')} left out: {named}{more}."


def claimed_sentence(nodes: Sequence[GpuNode]) -> str:
    """Return how many GPUs ResourceClaims hold that a device plugin offers, too; empty if there is no such node."""
    if not nodes:
        return ""
    gpus = sum(node.claimed for node in nodes)
    named = ", ".join(node.name for node in nodes[:_MOST_NODES])
    more = f" and {counted(len(nodes) - _MOST_NODES, 'more node')}" if len(nodes) > _MOST_NODES else ""
    return (
        f"{counted(gpus, 'GPU')} on {named}{more} {agreed(gpus, 'counts', 'count')} as taken: ResourceClaims hold "
        f"{agreed(gpus, 'it', 'them')}, and a device plugin offers {agreed(gpus, 'it', 'them')}, too (kubectl get "
        "resourceclaims -A)."
    )


_MOST_NODES = 3
"""The most nodes that a sentence names."""


def remedy_sentence(remedy: Remedy) -> str:
    """Return an instruction that says what to change."""
    return _REMEDIES[remedy.kind](dict(remedy.numbers))


def suggestion_sentence(suggestion: Suggestion) -> str:
    """Return what to change, what that saves, and what may get worse."""
    figures = dict(suggestion.numbers)
    change, risk = _SUGGESTIONS[suggestion.kind]
    saving = suggestion.hourly_saving
    saved = f"takes {_gpus(figures)} less" if saving is None else f"saves ${format_price(saving)}/h"
    return f"{change(figures)}: it then fits on {figures['place']}, which {saved}{_speed(figures)}. {risk} {_KEPT}"


_KEPT = "What runs moves there only if spec.gpu rules out its place of today."


def _speed(figures: Figures) -> str:
    if "tpot" not in figures or "tpot_now" not in figures:
        return ""
    return f"; {figures['tpot']} ms a token instead of {figures['tpot_now']}"


def estimate_sentence(figures: MemoryEstimate) -> str:
    """Return the estimate of one GPU in one line, term by term."""
    terms = [(_TERM_WORDS.get(term.name, term.name.title), term.size_bytes) for term in figures.summands]
    terms.append(("margin", figures.margin_bytes))
    summed = " + ".join(f"{name} {_signed_gib(size)}" for name, size in terms)
    return f"{summed} = {format_gib(figures.computed_bytes)} of {format_gib(figures.budget_bytes)} per GPU"


def _signed_gib(size: int) -> str:
    return format_gib(size) if size >= 0 else f"-{format_gib(-size)}"


def _gib(figures: Figures, name: str) -> str:
    return format_gib(int(figures[name]))


def _needed(figures: Figures, word: str) -> str:
    """Return what else new nodes must have, if a label, a volume or the image decides that."""
    return f" {word} {figures['needs']}" if "needs" in figures else ""


def _price(figures: Figures, name: str) -> str:
    """Return US dollars to the cent. The figure is ``unknown`` if a type has no price."""
    text = str(figures[name])
    return "no known price" if text == "unknown" else f"${format_price(Decimal(text))}/h"


def _cores(figures: Figures, name: str) -> str:
    """Return thousandths of a core as a number of cores: ``2``, ``0.5``."""
    return f"{int(figures[name]) / 1000:.3f}".rstrip("0").rstrip(".")


def _cpus(figures: Figures, name: str) -> str:
    return counted(_cores(figures, name), "CPU")


def _gpus(figures: Figures) -> str:
    return counted(figures["gpus"], "GPU")


def _none_of(figures: Figures) -> str:
    """Return the subject of a sentence about nodes of which none does something. Its verb is that of one thing."""
    if "of" in figures:
        return f"none of the nodes that other rules leave ({figures['nodes']} of {figures['of']})"
    return agreed(figures["nodes"], "no node", f"none of the {figures['nodes']} nodes")


def _any_of(figures: Figures) -> str:
    if "of" in figures:
        return f"any of the nodes that other rules leave ({figures['nodes']} of {figures['of']})"
    return agreed(figures["nodes"], "the only node", f"any of the {figures['nodes']} nodes")


def _node(figures: Figures) -> str:
    return f"on {figures['node']}; " if "node" in figures else ""


def _with_unhealthy(figures: Figures) -> str:
    """Return the node that would do if its unhealthy GPUs worked; empty if there is none."""
    if "unhealthy" not in figures:
        return ""
    number = figures["unhealthy"]
    return f" (node {figures['node']} has {number} more, which {agreed(number, 'is', 'are')} unhealthy)"


def _lacking_resource(figures: Figures) -> str:
    resource, unit = str(figures["resource"]), "_bytes" if "asked_bytes" in figures else ""
    asked, free, largest = (int(figures[f"{name}{unit}"]) for name in ("asked", "free", "largest"))
    asks = amount_words(resource, asked)
    if largest == 0:
        return f"{asks} and no node with free GPUs has any"
    have, most = (format_gib(each) if unit else str(each) for each in (free, largest))
    is_free = agreed(have, "is", "are")
    return f"{asks} and at most {have} {is_free} free on a node with free GPUs ({_node(figures)}the largest has {most})"


def _lowered(figures: Figures) -> str:
    if "resource" not in figures:
        cpus, memory = _cpus(figures, "cpu_millis"), _gib(figures, "memory_bytes")
        return f"lower spec.podTemplate.resources.requests to {cpus} and {memory} of memory"
    resource, amount = str(figures["resource"]), int(figures["amount"])
    if amount == 0:
        return f"remove {resource} from spec.podTemplate.resources"
    written = f"{amount // MIB}Mi" if is_in_bytes(resource) else str(amount)
    return f"lower {resource} in spec.podTemplate.resources to {written}"


def _next_degree(figures: Figures) -> str:
    return f"; {figures['next_degree']} works" if "next_degree" in figures else ""


def _of_tower(figures: Figures) -> str:
    """Return what of a tower cannot be shared: its heads, or the width of a layer."""
    what, size = figures["what"], figures["size"]
    return f"the tower's {size} {what}" if what == "attention heads" else f"the {size} channels of the tower's {what}"


def _ways_without_a_shared_tower(figures: Figures) -> str:
    copied = f"{figures['copied']} gives every GPU a whole tower" if "copied" in figures else ""
    left_out = f"{figures['left_out']} serves without it" if "left_out" in figures else ""
    ways = ", and ".join(way for way in (copied, left_out) if way)
    return f"; {ways}" if ways else ""


def _all_or_some(figures: Figures) -> str:
    replicas, missing = figures["replicas"], figures["missing"]
    return (
        "every replica fits there"
        if replicas == missing
        else counted_of(replicas, missing, "replica", "fits there", "fit there")
    )


def _costs_more(figures: Figures) -> str:
    if figures["price"] == figures["best_price"] and (speeds := _speeds(figures)):
        return f"fits at the same price{speeds}"
    if figures["price"] == figures["best_price"]:
        return f"fits at the same price with {_gpus(figures)}, the choice takes {figures['best_gpus']} or sorts first"
    if _is_less(figures["price"], figures["best_price"]):
        return f"fits at {_price(figures, 'price')} in more stages or engines; the choice in fewer costs little more"
    return f"fits at {_price(figures, 'price')}, the choice costs {_price(figures, 'best_price')}{_speeds(figures)}"


def _is_less(price: int | str, best: int | str) -> bool:
    return "unknown" not in (price, best) and Decimal(price) < Decimal(best)


def _speeds(figures: Figures) -> str:
    """Return how the speed of a candidate and of the choice differ; empty if they are not known."""
    parts = []
    if figures.get("tpot") != figures.get("best_tpot"):
        parts.append(f"{figures['tpot']} ms a token instead of {figures['best_tpot']}")
    if figures.get("million") != figures.get("best_million"):
        parts.append(f"${figures['million']} a million tokens instead of ${figures['best_million']}")
    if "measured" in figures:
        parts.append(f"only the speed {'here' if figures['measured'] == 'this' else 'of the choice'} is validated")
    return f": {', '.join(parts)}" if parts else ""


def _slower(figures: Figures) -> str:
    saved = f"fits at {_price(figures, 'price')} while the choice costs {_price(figures, 'best_price')}"
    paid = {"both": ", and half of these prices", "best": ", and half of the price of the choice"}
    half = f"{paid[str(figures['paid'])]}: idle nodes are paid for, too" if "paid" in figures else ""
    return f"{saved}{_speeds(figures)}; spec.objective counts the time of users as {_price(figures, 'worth')}{half}"


def _promise_not_sure(figures: Figures) -> str:
    return (
        f"keeps spec.slo by the estimate (TTFT {grouped(figures['ttft'])} ms, TPOT {figures['tpot']} ms), and not at "
        f"the upper quarter of its error band (TTFT {grouped(figures['ttft_high'])} ms, TPOT {figures['tpot_high']} ms)"
    )


def _not_measured(figures: Figures) -> str:
    return (
        f"fits at {_price(figures, 'price')} while the choice costs {_price(figures, 'best_price')}{_speeds(figures)}; "
        f"the speed of GPUs of {figures['vendor']} is not validated (spec.gpu.vendors with {figures['vendor']}, or "
        "spec.objective Batch, permits it)"
    )


def _beyond_quota(figures: Figures) -> str:
    takes, left = counted(figures.get("gpus", ""), "GPU"), figures.get("left")
    if "asked_millis" in figures:
        takes, left = _cpus(figures, "asked_millis"), _cores(figures, "left_millis")
    elif "asked_bytes" in figures:
        takes, left = f"{_gib(figures, 'asked_bytes')} of memory", _gib(figures, "left_bytes")
    elif "asked_pods" in figures:
        takes, left = counted(figures["asked_pods"], "pod"), figures["left_pods"]
    return f"fits, but takes {takes} and the namespace's ResourceQuota leaves {left} of {figures['resource']}"


def bounds_sentence(bounds: Numbers) -> str:
    """Return the bounds of LimitRanges that refuse a pod, each with what to change."""
    figures = dict(bounds)
    return "; ".join([_beyond(figures), *(_beyond(more) for more in _further_bounds(figures))])


def _further_bounds(figures: Figures) -> list[Figures]:
    ends = [name.removeprefix("rule") for name in figures if name.startswith("rule_")]
    return [
        {name.removesuffix(end): value for name, value in figures.items() if name.endswith(end)} for end in sorted(ends)
    ]


def _beyond(figures: Figures) -> str:
    """Return one bound of a LimitRange, the pod's figure, and what to change."""
    rule, resource, each = str(figures["rule"]), str(figures["resource"]), figures["limited"]
    bound = _amount(figures, "bound_thousandths")
    demand = {
        LimitRule.MIN: f"demands {bound} or more of each {each}",
        LimitRule.MAX: f"allows each {each} {bound} at most",
        LimitRule.RATIO: f"allows each {each} a limit of its request x {bound} at most",
        LimitRule.DEFAULT: f"gives a {each} without a limit one of {bound}",
    }[LimitRule(rule)]
    return (
        f"LimitRange {figures['limit_range']} {demand} ({rule}.{resource}) and {_stated(figures)}: {_unbound(figures)}"
    )


def _stated(figures: Figures) -> str:
    if figures["rule"] == LimitRule.RATIO:
        known = "asked_thousandths" in figures
        return f"the pod's is x {_amount(figures, 'asked_thousandths')}" if known else "the pod states no limit"
    if "asked_thousandths" not in figures:
        return f"the pod states no {figures['asked_of']}"
    amount = _amount(figures, "asked_thousandths")
    return f"the pod requests {amount}" if figures["asked_of"] == "request" else f"the pod's limit is {amount}"


def _unbound(figures: Figures) -> str:
    """Return what makes a bound admit the pod."""
    rule, resource, own = figures["rule"], figures["resource"], "spec.podTemplate.resources"
    if rule == LimitRule.DEFAULT:
        return f"set {own}.limits.{resource} to the request or more"
    if rule == LimitRule.RATIO:
        return f"set {own}.limits.{resource} nearer to the request"
    if rule == LimitRule.MIN:
        return f"raise {own}.{figures['asked_of']}s.{resource}"
    if "asked_thousandths" not in figures:
        return f"set {own}.limits.{resource}"
    if figures["asked_of"] == "limit":
        return f"lower {own}.limits.{resource}"
    less = f", or lower {own}.requests.{resource}" if resource == "cpu" else ""
    return f"raise {rule}.{resource} in the LimitRange{less}"


def _amount(figures: Figures, name: str) -> str:
    """Return an amount of the resource of a LimitRange, or a ratio."""
    resource, number = str(figures["resource"]), _cores(figures, name)
    if figures["rule"] == LimitRule.RATIO:
        return number
    if resource == "cpu":
        return counted(number, "CPU")
    if resource == "memory" or is_in_bytes(resource):
        return f"{format_gib(int(figures[name]) // MILLI)} of {resource}"
    return f"{number} {resource}"


def _stated_limits(figures: Figures) -> str:
    """Return the limits to state, in the notation of a manifest."""
    found = [f"cpu: {_cores(figures, 'cpu_millis')}"] if "cpu_millis" in figures else []
    if "memory_bytes" in figures:
        size = int(figures["memory_bytes"])
        found.append(f"memory: {size // GIB}Gi" if size % GIB == 0 else f"memory: {size // MIB}Mi")
    return f"set spec.podTemplate.resources.limits to {{{', '.join(found)}}}"


def _raised(figures: Figures) -> str:
    """Return the entries of a quota that are too small, each with the missing amount. Memory is in whole GiB."""
    gpus = [f"requests.{figures['resource']} by {figures['more']}"] if "more" in figures else []
    others = [name for name in sorted(figures) if name.startswith("requests.") and resource_in(name) not in _OF_HOST]
    gpus += [f"{name} by {figures[name]}" for name in others]
    cpu = [f"{name} by {_cores(figures, name)}" for name in _of(OF_CPU, figures)]
    memory = [f"{name} by {ceil_div(int(figures[name]), GIB)}Gi" for name in _of(OF_MEMORY, figures)]
    pods = [f"{name} by {figures[name]}" for name in _of(OF_PODS, figures)]
    return " and ".join([*gpus, *cpu, *memory, *pods])


def _of(resources: Collection[str], figures: Figures) -> list[str]:
    return sorted(name for name in figures if resource_in(name) in resources)


def _probable(figures: Figures) -> str:
    if "left_bytes" in figures:
        return (
            f"leaves {_gib(figures, 'left_bytes')} per GPU outside the engine's budget, where CUDA, communication and "
            f"CUDA graphs may take {_gib(figures, 'outside_bytes')}; the choice fits for sure"
        )
    if "least_bytes" in figures:
        return (
            f"fits at the lower edge of its error band only ({_gib(figures, 'least_bytes')} of "
            f"{_gib(figures, 'have_bytes')} per GPU; the estimate is {_gib(figures, 'need_bytes')}); the choice is "
            "more likely to fit"
        )
    return (
        f"fits by the estimate ({_gib(figures, 'need_bytes')} of {_gib(figures, 'have_bytes')} per GPU), not at the "
        f"upper edge of its error band ({_gib(figures, 'sure_bytes')}); the choice fits for sure"
    )


def _scarce(figures: Figures) -> str:
    other = figures.get("other", "another deployment")
    saved = f"save {_price(figures, 'saved')} for" if "saved" in figures else "are the only ones for"
    return (
        f"fits at {_price(figures, 'price')} where the choice costs {_price(figures, 'best_price')}, "
        f"but its free GPUs {saved} {other}"
    )


def _move_failed(figures: Figures) -> str:
    """Return when and why a move there was taken back. The pass that takes it back does not know the time yet."""
    failed = f"fits, but a move there did not come up in time ({figures['failure']})"
    if "until" not in figures:
        return failed
    times = figures["times"]
    often = "" if times == 1 else f", {times} times so far"
    return f"{failed} at {figures['at']}{often}; it is not moved there again before {figures['until']}"


def _platform_source(figures: Figures) -> str:
    if figures.get("source") == PlatformSource.INDEX:
        return f"the index of {figures['image']} names them; spec.engine.platforms replaces it"
    if figures.get("why"):
        return f"assumed: the index of {figures['image']} could not be read: {figures['why']}; {_DECLARE}"
    return f"assumed; {_DECLARE}" if figures.get("source") == PlatformSource.ASSUMED else _DECLARE


_DECLARE = "spec.engine.platforms names them"


_REJECTIONS: dict[Reason, Callable[[Figures], str]] = {
    Reason.TOO_LITTLE_VRAM: lambda f: (
        f"needs {_gib(f, 'need_bytes')} per GPU, the engine may use {_gib(f, 'have_bytes')}"
    ),
    Reason.KV_CACHE_TOO_SMALL: lambda f: (
        f"holds {grouped(f['have_tokens'])} tokens of KV cache, the load needs {grouped(f['need_tokens'])} "
        f"({_gib(f, 'need_bytes')} per GPU, the engine may use {_gib(f, 'have_bytes')})"
    ),
    Reason.TOO_FEW_STATES: lambda f: (
        f"holds the recurrent states of {f['states']} sequences, {f['sequences']} are to run at the same time: the "
        "engine refuses to start"
    ),
    Reason.HEADS_NOT_DIVISIBLE: lambda f: f"{f['heads']} attention heads do not divide{_next_degree(f)}",
    Reason.KV_HEADS_NOT_DIVISIBLE: lambda f: f"{f['kv_heads']} KV heads do not divide{_next_degree(f)}",
    Reason.WIDTH_NOT_DIVISIBLE: lambda f: f"{f['what']} {f['width']} does not divide{_next_degree(f)}",
    Reason.QUANT_BLOCK_NOT_DIVISIBLE: lambda f: (
        f"{f['what']} leaves {f['width']} columns a GPU, not whole blocks of {f['block']}{_next_degree(f)}"
    ),
    Reason.TOWER_NOT_DIVISIBLE: lambda f: (
        f"{_of_tower(f)} do not divide{_next_degree(f)}{_ways_without_a_shared_tower(f)}"
    ),
    Reason.STAGES_EXCEED_LAYERS: lambda f: f"cuts {counted(f['layers'], 'layer')} into {f['stages']} stages",
    Reason.STAGES_CUT_SHARED_LAYERS: lambda f: (
        f"{f['stages']} stages cut between layers {f['first']} and {f['last']}, which share what they keep"
    ),
    Reason.STAGES_NOT_SUPPORTED: lambda f: f"{f['title']} does not divide {f['architecture']} into pipeline stages",
    Reason.EXPERTS_NOT_DIVISIBLE: lambda f: f"spreads {counted(f['experts'], 'expert')} over {f['ranks']} ranks",
    Reason.CONTEXT_RANKS_NOT_DIVISIBLE: lambda f: (
        f"spreads tokens over {f['ranks']} ranks where {f['copies']} hold the same KV heads"
    ),
    Reason.DATA_PARALLEL_NEEDS_EXPERTS: lambda f: (
        f"runs {f['engines']} engines that share experts, and the model has none; replicas divide its requests as well"
    ),
    Reason.DATA_PARALLEL_NOT_SUPPORTED: lambda f: (
        f"runs {f['engines']} engines behind one server, whose memory is not known with {f['option']}"
        if "option" in f
        else f"runs {f['engines']} engines behind one server, which needs {f['title']} {f['need']}, and the release is "
        f"{f['have']}"
    ),
    Reason.PRECISION_NOT_SUPPORTED: lambda f: f"{f['what']} needs {f['need']}, the GPU has {f['have']}",
    Reason.IMAGE_FOR_OTHER_VENDOR: lambda f: (
        f"spec.engine.image is made for {str(f['image_vendor']).upper()} GPUs, "
        f"this one is {str(f['gpu_vendor']).upper()}'s (spec.engine.imageVendor names the vendor)"
    ),
    Reason.GPU_TYPE_DENIED: lambda f: f"ruled out by {f['field']}",
    Reason.CAPACITY_TYPE_DENIED: lambda f: f"is {f['capacity']} capacity, which spec.gpu.capacityTypes leaves out",
    Reason.GPU_TYPE_NOT_FORCED: lambda f: f"spec.overrides.gpuType asks for {f['forced']}",
    Reason.SPLIT_NOT_FORCED: lambda f: f"spec.overrides.tensorParallel asks for {f['forced']}",
    Reason.TOO_MANY_GPUS_PER_REPLICA: lambda f: f"takes {_gpus(f)}, spec.gpu.maxPerReplica allows {f['limit']}",
    Reason.NODE_TOO_SMALL: lambda f: (
        f"takes {_gpus(f)} on one node, the largest has {f['largest']}{_with_unhealthy(f)}"
    ),
    Reason.IMAGE_FOR_OTHER_PLATFORM: lambda f: (
        f"{_none_of(f)} has a platform of the image, {f['platforms']} ({_platform_source(f)})"
    ),
    Reason.VOLUME_ELSEWHERE: lambda f: (
        f"{_none_of(f)} can mount the volume of claim {f['claim']}, which is bound to {f['where']}"
    ),
    Reason.VOLUME_IN_USE: lambda f: (
        f"{_none_of(f)} can mount the volume of claim {f['claim']}, which only pods of one node can: pod {f['pod']} "
        f"mounts it on node {f['node']}"
    ),
    Reason.NODE_DISK_TOO_SMALL: lambda f: (
        f"{_none_of(f)} has the disk (ephemeral-storage) for the model's files, {_gib(f, 'least_bytes')}: "
        f"the largest has {_gib(f, 'largest_bytes')}"
    ),
    Reason.DRIVER_TOO_OLD: lambda f: (
        f"{_none_of(f)} has NVIDIA driver {f['least']} or newer, which the engine's image needs"
    ),
    Reason.NODE_LEFT: lambda f: f"its pods could not run as they should on {_any_of(f)} lately: {f['left']}",
    Reason.NODES_NOT_SELECTED: lambda f: (
        f"{_none_of(f)} matches "
        + (
            f"spec.podTemplate.affinity ({f['where']})"
            if "where" in f
            else "spec.podTemplate.nodeSelector and tolerations"
        )
        + (f": {f['tainted']} {agreed(f['tainted'], 'has', 'have')} the taint {f['taint']}" if "taint" in f else "")
    ),
    Reason.GPUS_TAKEN: lambda f: (
        f"fits, but takes {_gpus(f)} on one node and at most {f['free']} {agreed(f['free'], 'is', 'are')} free"
        + _with_unhealthy(f)
    ),
    Reason.TOO_EXPENSIVE: lambda f: f"costs {_price(f, 'price')}, spec.gpu.maxHourlyPrice allows {_price(f, 'limit')}",
    Reason.PRICE_UNKNOWN: lambda f: (
        f"has no price, spec.gpu.maxHourlyPrice allows ${f['limit']}/h: set one in the ConfigMap"
    ),
    Reason.TOO_SLOW: lambda f: (
        f"has a {f['figure']} of {grouped(f['milliseconds'])} ms at the declared load, spec.slo allows "
        f"{grouped(f['limit'])} ms" + (f"; {f['nearest']} keeps it" if "nearest" in f else "")
    ),
    Reason.PROMISE_NOT_SURE: _promise_not_sure,
    Reason.SPOT_NOT_ASKED: lambda f: (
        f"fits at {_price(f, 'price')} on spot nodes, which the cloud may take back at any time, while the choice "
        f"costs {_price(f, 'best_price')}; spec.gpu.capacityTypes with Spot permits it"
    ),
    Reason.SPEED_NOT_MEASURED: _not_measured,
    Reason.TOO_MANY_ON_SPOT: lambda f: (
        f"fits at {_price(f, 'price')} on spot nodes, which the cloud may take back at any time; "
        f"{counted(f['least'], 'replica')} at least {agreed(f['least'], 'stays', 'stay')} on nodes on demand "
        "(spec.rebalancing.minReplicas says how many, spec.gpu.capacityTypes with Spot alone permits all)"
    ),
    Reason.SLOWER_FOR_ITS_PRICE: _slower,
    Reason.COSTS_MORE: _costs_more,
    Reason.NARROW_CACHE_SAVES_LITTLE: lambda f: (
        f"fits with an fp8 KV cache at {_price(f, 'price')}, the choice keeps 16 bits at {_price(f, 'best_price')}: a "
        "tenth or less is saved"
    ),
    Reason.FITS_ONLY_PROBABLY: _probable,
    Reason.ROOM_FOR_FEWER: lambda f: (
        f"fits at {_price(f, 'price')}, but has room for {counted(f['room'], 'replica')} where the choice "
        f"takes {f['best_room']}"
    ),
    Reason.SCARCE_FOR_OTHERS: _scarce,
    Reason.OBSERVED_TOO_SMALL: lambda f: (
        f"a running engine got {grouped(f['have_tokens'])} tokens of KV cache there, the load needs "
        f"{grouped(f['need_tokens'])}"
    ),
    Reason.START_FAILED: lambda _: "an engine of this deployment ran out of memory there when it started",
    Reason.PLACEMENT_KEPT: lambda f: (
        f"fits at {_price(f, 'price')} with {_gpus(f)}, but what runs is kept: moving would restart it"
    ),
    Reason.KEPT_TO_AVOID_MOVE: lambda f: (
        f"fits at {_price(f, 'price')} and has room, which would save {_price(f, 'saved')}, but what runs is kept: "
        f"moving costs {_price(f, 'charge').removesuffix('/h')} once"
    ),
    Reason.QUOTA_EXCEEDED: _beyond_quota,
    Reason.HOST_MEMORY_TOO_SMALL: lambda f: (
        f"keeps {_gib(f, 'least_bytes')} in host memory with its processes, {f['field']} allows "
        f"{_gib(f, 'stated_bytes')}"
    ),
    Reason.LIMIT_RANGE_EXCEEDED: lambda f: f"fits, but {bounds_sentence(tuple(f.items()))}",
    Reason.NODE_LACKS_CPU: lambda f: (
        f"fits, but a pod asks for {_cpus(f, 'asked_millis')} and at most "
        f"{_cores(f, 'free_millis')} {agreed(_cores(f, 'free_millis'), 'is', 'are')} free on "
        f"a node with free GPUs ({_node(f)}the largest has {_cores(f, 'largest_millis')})"
    ),
    Reason.NODE_LACKS_MEMORY: lambda f: (
        f"fits, but a pod asks for {_gib(f, 'asked_bytes')} of host memory and at most {_gib(f, 'free_bytes')} are "
        f"free on a node with free GPUs ({_node(f)}the largest has {_gib(f, 'largest_bytes')})"
    ),
    Reason.NODE_LACKS_PODS: lambda f: f"fits, but its nodes run as many pods as they may ({f['largest']})",
    Reason.NODE_LACKS_RESOURCE: lambda f: f"fits, but a pod asks for {_lacking_resource(f)}",
    Reason.LEFT_RECENTLY: lambda _: "fits, but pods of this deployment found no node there within the last hour",
    Reason.MOVE_FAILED: _move_failed,
}


_REMEDIES: dict[RemedyKind, Callable[[Figures], str]] = {
    RemedyKind.FREE_GPUS: lambda f: f"free {f['gpus']} {f['gpu_type']} on one node: it fits there once they are free",
    RemedyKind.REDUCE_CONTEXT: lambda f: f"lower spec.contextLength from {f['from']} to {f['to']}",
    RemedyKind.REDUCE_CONCURRENCY: lambda f: f"lower spec.concurrency from {f['from']} to {f['to']}",
    RemedyKind.REDUCE_SEQUENCES: lambda f: f"lower spec.engine.maxSequences from {f['from']} to {f['to']}",
    RemedyKind.KV_CACHE_FP8: lambda _: "set spec.kvCache.precision to fp8",
    RemedyKind.WEIGHTS_FP8: lambda _: "set spec.precision to fp8, or use an FP8 checkpoint",
    RemedyKind.WEIGHTS_FP16: lambda _: "set spec.precision to fp16: these GPUs have no bf16",
    RemedyKind.RAISE_QUOTA: lambda f: f"raise the ResourceQuota's {_raised(f)}: it fits on {f['gpus']} {f['gpu_type']}",
    RemedyKind.LOWER_REQUESTS: lambda f: f"{_lowered(f)}: it fits on {f['gpu_type']} then",
    RemedyKind.LESS_HOST_CACHE: lambda f: (
        f"lower spec.kvCache.hostMemory from {int(f['from_bytes']) // GIB}Gi to {int(f['host_bytes']) // GIB}Gi: "
        f"it fits on {f['gpu_type']} then"
        if f["host_bytes"]
        else f"remove spec.kvCache.hostMemory: it fits on {f['gpu_type']} then"
    ),
    RemedyKind.STATE_LIMITS: lambda f: f"{_stated_limits(f)}: it fits on {f['gpu_type']} then",
    RemedyKind.CACHE_ON_CLAIM: lambda f: (
        f"name a claim of {ceil_div(int(f['least_bytes']), GIB)}Gi or more in spec.podTemplate.modelCache.claimName: "
        f"it fits on {f['gpu_type']} then"
    ),
    RemedyKind.UPDATE_DRIVER: lambda f: (
        f"update the NVIDIA driver of nodes with {f['gpu_type']} to {f['least']} or newer: it fits there then"
    ),
    RemedyKind.FREE_CLAIM: lambda f: (
        f"end pod {f['pod']}, or name a claim other than {f['claim']}: it fits on {f['gpu_type']} then"
    ),
    RemedyKind.ADD_NODES: lambda f: (
        f"add {f['nodes']} node{'' if f['nodes'] == 1 else 's'} of the group {f['group']} ({f['gpus']} {f['gpu_type']} "
        f"each, {_price(f, 'price')}{'' if f['nodes'] == 1 else ' together'}){_needed(f, 'with')}: {_all_or_some(f)}"
    ),
    RemedyKind.ADD_GPUS: lambda f: f"add a node with {f['gpus']} {f['gpu_type']}{_needed(f, 'and')}",
    RemedyKind.RELAX_CONSTRAINTS: lambda f: (
        f"drop spec.gpu, spec.overrides or the node selector: {f['gpus']} {f['gpu_type']} would do"
    ),
}


_SUGGESTIONS: dict[SuggestionKind, tuple[Callable[[Figures], str], str]] = {
    SuggestionKind.NARROW_KV_CACHE: (
        lambda _: "set spec.kvCache.precision to fp8",
        "Risk: keys and values are rounded, so answers can get worse, most with long contexts.",
    ),
    SuggestionKind.EXPECTED_LENGTHS: (
        lambda f: (
            f"if requests have {f['prompt']} prompt and {f['output']} output tokens on average or fewer, set "
            f"spec.expectedTokens to prompt {f['prompt']} and output {f['output']}"
        ),
        "Risk: while many requests are longer than that, some wait for room in the KV cache.",
    ),
    SuggestionKind.OTHER_CHECKPOINT: (
        lambda f: f"set spec.model.name to {f['model']} and spec.precision to auto ({f['precision']})",
        "Risk: its weights have fewer bits, so answers can get worse; compare them on your own prompts.",
    ),
}
"""The change, and its risk."""
