"""The map of the fleet: where is room, and what holds it? Nodes, their GPUs as hulls, and who holds them.

For a person who may not list nodes: the GPUs by type, as the operator's metrics have them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from plimsoll.console.drawing.bar import BarScale, BarStrip, common_scale, strip_of
from plimsoll.console.drawing.hulls import Held, Hulls, hulls_of
from plimsoll.console.views.paging import ListPage, Query, first_of, has_words, part_of
from plimsoll.console.views.rows import DeploymentRow
from plimsoll.console.views.sorting import SortColumn, SortedItems, sorted_items
from plimsoll.console.views.states import NOT_KNOWN, Pressures, StateMark, mark_of
from plimsoll.console.views.words import count
from plimsoll.console.views.world import ClusterView, PodRow
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB
from plimsoll.status.severity import LoadLine

NODES_AT_ONCE = 40
"""More nodes than this open as one strip for each GPU type; the nodes of a type come on demand."""

HULL_LENGTH = 150.0
"""The height of the largest GPU of the page, in picture units."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """Who holds GPUs of a node: a deployment of ours with its figures, or somebody else's pod.

    ``need`` and ``line`` are in GiB, as words. ``over`` is how far the need is beyond the line, in GiB.
    """

    letter: str
    gpus: int
    key: ObjectKey | None
    pods: int
    words: str = ""
    state: StateMark | None = None
    over: str = ""


@dataclass(frozen=True, slots=True)
class NodeCard:
    """One node with its drawing."""

    node: GpuNode
    zone: str
    holders: tuple[GpuHolder, ...]
    hulls: Hulls


@dataclass(frozen=True, slots=True)
class TypeStrip:
    """All GPUs of one type: how many are free, and what holds the others."""

    gpu_type: str
    nodes: int
    gpus: int
    free: int
    ours: int
    others: int
    over: int
    strip: BarStrip


@dataclass(frozen=True, slots=True)
class FleetMap:
    """The map. ``part`` has the nodes of this page; None if only the strips are shown. ``order`` has all that match."""

    strips: tuple[TypeStrip, ...]
    part: ListPage[NodeCard] | None
    chosen: str
    search: str
    order: SortedItems[GpuNode]


NODE_SORTS: tuple[SortColumn[GpuNode], ...] = (
    SortColumn("name", "name", lambda node: node.name),
    SortColumn("free", "free GPUs", lambda node: node.free, is_falling=True),
    SortColumn("gpu", "GPU type", lambda node: node.gpu.name),
    SortColumn("memory", "memory of a GPU", lambda node: node.gpu.usable_bytes, is_falling=True),
)
"""The columns by which nodes can be sorted."""


def fleet_of(
    world: ClusterView,
    fleet: Fleet,
    path: str,
    query: Query,
    live: Mapping[ObjectKey, float] = MappingProxyType({}),
    pressures: Pressures = NOT_KNOWN,
) -> FleetMap:
    """Return the map that a URL asks for: ``type`` and ``q`` filter the nodes, ``page`` counts from 1.

    ``live`` is the used share of the KV cache (0 to 1) by deployment, if it is known. ``pressures`` are what the
    engines report.
    """
    chosen, search = first_of(query, "type"), first_of(query, "q")
    nodes = [node for node in fleet.nodes if chosen in ("", node.gpu.name) and _matches(node, search)]
    by_node = _pods_by_node(world.pods)
    strips = tuple(_strips(world, fleet.nodes, by_node))
    if not (chosen or search) and len(nodes) > NODES_AT_ONCE:
        return FleetMap(strips, None, chosen, search, sorted_items(nodes, NODE_SORTS, path, query))
    scale = common_scale((node.gpu.usable_bytes for node in nodes), HULL_LENGTH)
    order = sorted_items(nodes, NODE_SORTS, path, query)
    part = part_of(order.items, path, query, NODES_AT_ONCE)
    cards = tuple(_card(world, node, by_node, scale, live, pressures) for node in part.items)
    shown = ListPage(cards, part.total, part.number, part.pages, part.previous, part.following)
    return FleetMap(strips, shown, chosen, search, order)


def strips_of(world: ClusterView) -> tuple[TypeStrip, ...]:
    """Return the strips of all GPU types; none if the person may not list nodes."""
    nodes = () if world.fleet is None else world.fleet.nodes
    return tuple(_strips(world, nodes, _pods_by_node(world.pods)))


def _matches(node: GpuNode, search: str) -> bool:
    return has_words(search, node.name, node.gpu.name, dict(node.labels).get(ZONE, ""))


def _pods_by_node(pods: Sequence[PodRow]) -> Mapping[str, Sequence[PodRow]]:
    found: dict[str, list[PodRow]] = defaultdict(list)
    for pod in pods:
        if pod.node:
            found[pod.node].append(pod)
    return found


def _card(
    world: ClusterView,
    node: GpuNode,
    by_node: Mapping[str, Sequence[PodRow]],
    scale: BarScale,
    live: Mapping[ObjectKey, float],
    pressures: Pressures,
) -> NodeCard:
    pods = sorted(
        (pod for pod in by_node.get(node.name, ()) if pod.holds(node.resource)),
        key=lambda pod: (not pod.is_ours, pod.owner, pod.key),
    )
    named = list(_named(pods))
    held = [_held(world, letter, pod, node.resource, live) for letter, pod in named]
    holders = tuple(_holders(world, named, node.resource, pressures))
    zone = dict(node.labels).get(ZONE, "")
    return NodeCard(node, zone, holders, hulls_of(node.gpu.usable_bytes, node.allocatable, held, scale))


def _named(pods: Sequence[PodRow]) -> Iterator[tuple[str, PodRow]]:
    """Yield a letter with each pod of ours; pods of one deployment share it."""
    letters: dict[ObjectKey, str] = {}
    for pod in pods:
        if not pod.is_ours:
            yield "", pod
            continue
        letter = letters.setdefault(pod.owner, LETTERS[len(letters) % len(LETTERS)])
        yield letter, pod


def _held(world: ClusterView, letter: str, pod: PodRow, resource: str, live: Mapping[ObjectKey, float]) -> Held:
    share = live.get(pod.owner) if pod.is_ours else None
    return Held(letter, pod.holds(resource), _figures_row(world, pod), share)


def _figures_row(world: ClusterView, pod: PodRow) -> DeploymentRow | None:
    """Return the deployment of a pod if its figures are those of the pod's pool."""
    row = world.rows.get(pod.owner) if pod.is_ours else None
    pool = None if row is None else next((each for each in row.pools if each.name == pod.pool), None)
    is_same = row is not None and pool is not None and (pool.gpu_type, pool.split) == (row.gpu_type, row.split)
    return row if is_same else None


def _holders(
    world: ClusterView, named: Sequence[tuple[str, PodRow]], resource: str, pressures: Pressures
) -> Iterator[GpuHolder]:
    """Yield the holders, one for each deployment and one for all others."""
    groups: dict[str, list[PodRow]] = defaultdict(list)
    for letter, pod in named:
        groups[letter].append(pod)
    for letter, pods in sorted(groups.items(), key=lambda each: (each[0] == "", each[0])):
        gpus = sum(pod.holds(resource) for pod in pods)
        row = world.rows.get(pods[0].owner) if letter else None
        yield _holder(letter, pods, gpus, row, pressures)


def _holder(
    letter: str, pods: Sequence[PodRow], gpus: int, row: DeploymentRow | None, pressures: Pressures
) -> GpuHolder:
    key = pods[0].owner if letter else None
    if row is None or row.figures is None:
        return GpuHolder(letter, gpus, key, len(pods))
    figures = row.figures
    over = f"{-figures.spare / GIB:.1f}" if figures.spare < 0 else ""
    words = f"needs {figures.upper / GIB:.1f}, line {figures.budget / GIB:.1f} GiB"
    return GpuHolder(letter, gpus, key, len(pods), words, mark_of(row, pressures), over)


def _strips(
    world: ClusterView, nodes: Sequence[GpuNode], by_node: Mapping[str, Sequence[PodRow]]
) -> Iterator[TypeStrip]:
    over = {key for key, row in world.rows.items() if row.signs.line is LoadLine.OVER}
    most = max(_totals(nodes).values(), default=0)
    for gpu_type in sorted(_totals(nodes)):
        of_type = [node for node in nodes if node.gpu.name == gpu_type]
        yield _strip(of_type, by_node, over, most)


def _totals(nodes: Sequence[GpuNode]) -> Mapping[str, int]:
    totals: dict[str, int] = defaultdict(int)
    for node in nodes:
        totals[node.gpu.name] += node.allocatable
    return totals


def _strip(
    nodes: Sequence[GpuNode], by_node: Mapping[str, Sequence[PodRow]], over: set[ObjectKey], most: int
) -> TypeStrip:
    pods = [(pod, pod.holds(node.resource)) for node in nodes for pod in by_node.get(node.name, ())]
    ours = sum(held for pod, held in pods if pod.is_ours)
    beyond = sum(held for pod, held in pods if pod.is_ours and pod.owner in over)
    total, free = sum(node.allocatable for node in nodes), sum(node.free for node in nodes)
    others = max(0, total - free - ours)
    first = nodes[0].gpu
    free_words = f"{first.name}: {count(free)} of {count(total)} GPUs free"
    words = f"{free_words}, {count(ours)} of deployments, {count(others)} of others"
    return TypeStrip(
        first.name, len(nodes), total, free, ours, others, beyond, strip_of(ours, others, free, most, words)
    )


@dataclass(frozen=True, slots=True)
class GpuTotal:
    """All GPUs of one type that deployments may use."""

    gpu_type: str
    free: int
    held: int

    @property
    def gpus(self) -> int:
        """Free and held ones."""
        return self.free + self.held


@dataclass(frozen=True, slots=True)
class FleetTotals:
    """The totals of all types, and the POSIX time of their oldest sample."""

    at: float
    types: tuple[GpuTotal, ...]


@dataclass(frozen=True, slots=True)
class TotalLine:
    """One type with its strip."""

    total: GpuTotal
    strip: BarStrip


def lines_of_totals(totals: Iterable[GpuTotal]) -> tuple[TotalLine, ...]:
    """Return the types by name, all strips on one scale."""
    found = sorted(totals, key=lambda each: each.gpu_type)
    most = max((each.gpus for each in found), default=0)
    return tuple(TotalLine(each, _strip_of_total(each, most)) for each in found)


def _strip_of_total(total: GpuTotal, most: int) -> BarStrip:
    words = f"{total.gpu_type}: {count(total.free)} of {count(total.gpus)} GPUs free, {count(total.held)} held"
    return strip_of(0, total.held, total.free, most, words)
