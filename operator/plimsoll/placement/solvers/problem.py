"""The assignment of a whole pass as numbers: kinds of deployments, their choices, and the room on groups of nodes.

Deployments that are equal are one kind, and nodes that accept the same kinds are one group. So the problem
grows with the variety of a cluster, and hardly with its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.host import NO_HOST_NEED, UNKNOWN_HOST, Amounts, HostNeed, HostRoom
from plimsoll.domain.cluster.quota_accounts import resource_in
from plimsoll.domain.decisions.outcomes import Option, Split
from plimsoll.domain.kubernetes_names import OF_CPU, OF_MEMORY
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.demands.rehoming import still_open
from plimsoll.placement.ledger import Ledger, use_at
from plimsoll.placement.options.nodes import eligible_nodes, host_need
from plimsoll.placement.options.verdicts import price_of
from plimsoll.placement.places.place import room_of

Place = tuple[str, Split]

Patience = tuple[float, int]
"""The fields ``spare`` and ``level`` of a :class:`Kind`."""

NO_PATIENCE: Patience = (0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One GPU type and split of a kind, for one replica.

    ``gpus`` and ``need``, the CPU and memory, are what a pod takes from its node. ``price`` is in US dollars an hour,
    with the worth of the time that users wait. Options with fewer ``doubts``
    (:class:`~plimsoll.domain.decisions.outcomes.Option`) come first, whatever they cost. ``groups`` are the indexes of
    the groups of nodes that accept the replica. ``quotas`` are the indexes of the quotas that it uses up, each with the
    amount. ``size`` is the index of the kind's size that has such replicas.
    """

    place: Place
    gpus: int
    price: float
    doubts: int
    groups: tuple[int, ...]
    quotas: tuple[tuple[int, float], ...] = ()
    need: HostNeed = NO_HOST_NEED
    size: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """Deployments with the same choices and the same numbers of replicas to place.

    ``choices`` are in the order of preference; there is one at least. ``sizes`` are the numbers of replicas that a
    deployment may have: one number, or several if it declares the load of all replicas together. It takes choices of
    one size only. With ``whole``, all replicas are placed with one choice, or none is.
    ``spare`` is how many replicas of one deployment may stay without a place, as :meth:`weighed` counts them. ``level``
    is 0 if that number is the least that is possible. Otherwise it is the level of priority, from 1 on, whose
    missing replicas are minimised.
    """

    choices: tuple[Choice, ...]
    sizes: tuple[int, ...]
    whole: bool
    spare: float
    level: int

    @property
    def replicas(self) -> int:
        """The number of replicas in the first size. A deployment counts as that many replicas in every size."""
        return self.sizes[0]

    def of_size(self, size: int) -> list[int]:
        """Return the indexes of the choices of one size, in the order of preference."""
        return [index for index, choice in enumerate(self.choices) if choice.size == size]

    def weighed(self, size: int, replicas: float) -> float:
        """Return the number of replicas of the first size that serve as much load as ``replicas`` of another size.

        So a third of the load counts the same in every size. Equal shares give equal numbers, without rounding errors.
        """
        return replicas * self.sizes[0] / self.sizes[size]


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one GPU type that accept the same kinds.

    ``slots`` holds, for each number of GPUs that a replica may take, how many such replicas fit on the free GPUs.
    ``pods`` holds the same for pods of the smallest need, limited by the nodes' other resources. ``cpu_millis`` and
    ``memory_bytes`` are free on all of its nodes together; None if a node reports no limit. ``others`` are the
    further resources that a choice names and that every node reports, with what is free of them on all nodes.
    """

    slots: tuple[tuple[int, int], ...]
    pods: tuple[tuple[int, int], ...] = ()
    cpu_millis: int | None = None
    memory_bytes: int | None = None
    others: Amounts = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """The kinds of a pass, how many deployments each has, the groups of nodes, and what quotas leave."""

    kinds: tuple[Kind, ...]
    counts: tuple[int, ...]
    groups: tuple[Group, ...]
    quotas: tuple[float, ...] = ()

    @property
    def least_bill(self) -> float:
        """US dollars an hour if every deployment had its cheapest choice in its cheapest size: no plan costs less."""
        return sum(
            count * min(kind.sizes[choice.size] * choice.price for choice in kind.choices)
            for kind, count in zip(self.kinds, self.counts, strict=True)
        )

    @property
    def choices_of_sizes(self) -> int:
        """The number of choices of all kinds with several sizes."""
        return sum(len(kind.choices) for kind in self.kinds if len(kind.sizes) > 1)


@dataclass(frozen=True, slots=True)
class Posed:
    """A problem, the demands of each kind in the order of decisions, and the nodes of each group.

    ``levels`` are the same demands by priority, from the highest on, each level in the order of decisions.
    """

    problem: Problem
    members: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[GpuNode, ...], ...]
    levels: tuple[tuple[int, ...], ...] = ()

    def among(self, chosen: Collection[int], patience: Mapping[int, Patience]) -> Posed:
        """Return the problem of the chosen demands alone. Those in ``patience`` may miss replicas."""
        kinds: list[Kind] = []
        members: list[tuple[int, ...]] = []
        for kind, indexes in zip(self.problem.kinds, self.members, strict=True):
            alike: dict[Patience, list[int]] = {}
            for index in indexes:
                if index in chosen:
                    alike.setdefault(patience.get(index, NO_PATIENCE), []).append(index)
            for (spare, level), those in sorted(alike.items()):
                kinds.append(replace(kind, spare=min(spare, kind.replicas), level=level))
                members.append(tuple(those))
        problem = replace(self.problem, kinds=tuple(kinds), counts=tuple(len(each) for each in members))
        return replace(self, problem=problem, members=tuple(members))


def pose(demands: Mapping[int, Demand], fleet: Fleet, ledger: Ledger) -> Posed:
    """Return the problem of these demands, by their index in the order of decisions."""
    return _Poser(fleet, ledger).pose(demands)


class _Poser:
    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self.fleet, self.ledger = fleet, ledger
        self.sets: dict[str, dict[int, tuple[GpuNode, ...]]] = defaultdict(dict)
        self.quotas: dict[tuple[str, str], int] = {}
        self.known: dict[tuple[object, ...], list[Option]] = {}

    def pose(self, demands: Mapping[int, Demand]) -> Posed:
        alike: dict[tuple[object, ...], list[int]] = {}
        for index, demand in demands.items():
            alike.setdefault(self._likeness(demand), []).append(index)
        found = {likeness: self._open(demands[members[0]]) for likeness, members in alike.items()}
        # A deployment without a choice cannot be helped here, and would only make a full plan impossible.
        alike = {likeness: members for likeness, members in alike.items() if found[likeness]}
        firsts = [(demands[members[0]], found[likeness]) for likeness, members in alike.items()]
        for demand, options in firsts:
            for _, option in options:
                accepting = eligible_nodes(demand.request, self.fleet, option.gpu.name)
                self.sets[option.gpu.name][id(accepting)] = accepting
        grouped, nodes = self._grouped()
        kinds = tuple(self._kind(demand, options, grouped) for demand, options in firsts)
        problem = Problem(
            kinds=kinds,
            counts=tuple(len(members) for members in alike.values()),
            groups=tuple(self._group(index, each, kinds) for index, each in enumerate(nodes)),
            quotas=tuple(_scaled(name, max(0, self.ledger.quota[namespace][name])) for namespace, name in self.quotas),
        )
        levels: dict[int, list[int]] = defaultdict(list)
        for index in sorted(index for members in alike.values() for index in members):
            levels[-demands[index].tenant.priority.value].append(index)
        return Posed(
            problem,
            tuple(tuple(members) for members in alike.values()),
            tuple(nodes),
            tuple(tuple(levels[value]) for value in sorted(levels)),
        )

    def _likeness(self, demand: Demand) -> tuple[object, ...]:
        request = demand.request
        limited = request.key.namespace in self.ledger.quota
        return (
            tuple((id(way.options), wanted(way)) for way in demand.ways),
            request.sites,
            request.stated_host,
            bool(demand.outdated),
            demand.excluded,
            (request.key.namespace, request.priority_class) if limited else (),
            request.key if request.least_on_demand else None,
        )

    def _open(self, demand: Demand) -> list[tuple[int, Option]]:
        """Return the open options of every size, each with the index of its size."""
        return [(size, option) for size, way in enumerate(demand.ways) for option in self._open_options(way)]

    def _open_options(self, demand: Demand) -> list[Option]:
        """Return the open options. Demands that differ in nothing but the number of replicas share them."""
        about = (id(demand.options), demand.request.sites, demand.request.stated_host, demand.excluded)
        if about not in self.known:
            self.known[about] = open_options(demand, self.fleet, self.ledger)
        return self.known[about]

    def _grouped(self) -> tuple[dict[int, tuple[int, ...]], list[tuple[GpuNode, ...]]]:
        """Divide the nodes by the sets that hold them. Return each set's groups by its id, and each group's nodes."""
        nodes: list[tuple[GpuNode, ...]] = []
        groups: dict[int, list[int]] = defaultdict(list)
        for sets in self.sets.values():
            holding: dict[str, list[int]] = defaultdict(list)
            by_account: dict[str, GpuNode] = {}
            for name, each in sets.items():
                for node in each:
                    if self.ledger.free[node.account] > 0:
                        holding[node.account].append(name)
                        by_account[node.account] = node
            split: dict[tuple[int, ...], list[GpuNode]] = defaultdict(list)
            for account, names in holding.items():
                split[tuple(names)].append(by_account[account])
            for sharing, members in split.items():
                for name in sharing:
                    groups[name].append(len(nodes))
                nodes.append(tuple(members))
        return {name: tuple(indexes) for name, indexes in groups.items()}, nodes

    def _kind(
        self, demand: Demand, options: Iterable[tuple[int, Option]], grouped: Mapping[int, tuple[int, ...]]
    ) -> Kind:
        choices: list[list[Choice]] = [[] for _ in demand.ways]
        for size, option in options:
            choices[size].append(self._choice(demand.ways[size].request, option, size, grouped))
        sizes = tuple(map(wanted, demand.ways))
        kept = (choice for each in choices for choice in undominated(each))
        by_bill = sorted(kept, key=lambda each: (each.doubts, each.price * sizes[each.size], sizes[each.size]))
        return Kind(tuple(by_bill), sizes, bool(demand.outdated), *NO_PATIENCE)

    def _choice(self, request: Request, option: Option, size: int, grouped: Mapping[int, tuple[int, ...]]) -> Choice:
        return Choice(
            place=option.target.place,
            gpus=option.split.shape.gpus_per_pod,
            price=price_of(option),
            doubts=option.doubts,
            groups=grouped[id(eligible_nodes(request, self.fleet, option.gpu.name))],
            quotas=tuple(self._quotas(request, option)),
            need=host_need(request, option),
            size=size,
        )

    def _quotas(self, request: Request, option: Option) -> Iterator[tuple[int, float]]:
        namespace = request.key.namespace
        left = self.ledger.quota.get(namespace)
        for name, amount in use_at(request, option).on(left) if left else ():
            if amount > 0:
                yield self.quotas.setdefault((namespace, name), len(self.quotas)), _scaled(name, amount)

    def _group(self, index: int, nodes: Sequence[GpuNode], kinds: Iterable[Kind]) -> Group:
        users = [(choice.gpus, choice.need) for kind in kinds for choice in kind.choices if index in choice.groups]
        sizes = sorted({gpus for gpus, _ in users})
        least = HostNeed(min(need.cpu_millis for _, need in users), min(need.memory_bytes for _, need in users))
        free = [self.ledger.free[node.account] for node in nodes]
        hosts = [self.ledger.hosts.get(node.name, UNKNOWN_HOST) for node in nodes]
        cpu = [host.cpu_millis for host in hosts]
        memory = [host.memory_bytes for host in hosts]
        slots = tuple((size, sum(gpus // size for gpus in free)) for size in sizes)
        pods = tuple(
            (size, sum(host.takes(least, gpus // size) for gpus, host in zip(free, hosts, strict=True)))
            for size in sizes
        )
        return Group(
            slots=slots,
            pods=tuple(each for each in pods if each not in slots),
            cpu_millis=_free_on_all(cpu),
            memory_bytes=_free_on_all(memory),
            others=_others([need for _, need in users], hosts),
        )


def _others(needs: Iterable[HostNeed], hosts: Sequence[HostRoom]) -> Amounts:
    names = sorted({name for need in needs for name, _ in need.others})
    free = ((name, _free_on_all([host.of_other(name) for host in hosts])) for name in names)
    return tuple((name, amount) for name, amount in free if amount is not None)


def _free_on_all(amounts: Sequence[int | None]) -> int | None:
    """Return what is free on all nodes together; None if a node reports no limit. A node may be overbooked."""
    known = [max(0, each) for each in amounts if each is not None]
    return sum(known) if len(known) == len(amounts) else None


def _scaled(name: str, amount: int) -> float:
    """Return cores and GiB, so that all amounts of a problem are of one order of magnitude."""
    resource = resource_in(name)
    return amount / 1000 if resource in OF_CPU else amount / GIB if resource in OF_MEMORY else amount


def open_options(demand: Demand, fleet: Fleet, ledger: Ledger) -> list[Option]:
    """Return the options that are not closed to the demand and have room for a replica now."""
    request = demand.request
    return [
        each
        for each in still_open(demand.options.verdicts, demand.excluded)
        if ledger.has_room(eligible_nodes(request, fleet, each.gpu.name), each.split.shape, host_need(request, each))
    ]


def best_alone(demand: Demand, fleet: Fleet, ledger: Ledger) -> Option | None:
    """Return the choice that no plan for this demand alone improves: the cheapest of those with the fewest doubts.

    None if it has room for some replicas only, or if the demand has sizes to choose from.
    """
    options = [] if demand.sizes else open_options(demand, fleet, ledger)
    if not options:
        return None
    best = min(options, key=lambda each: _preference(each.doubts, price_of(each), each.target.place))
    replicas = wanted(demand)
    return best if room_of(demand.request.with_replicas(replicas), best, fleet, ledger) >= replicas else None


def wanted(demand: Demand) -> int:
    """Return the number of replicas to place: the missing ones, at most those that a replacement needs."""
    return max(0, demand.missing)


def undominated(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the choices in the order of preference.

    On one GPU type, a choice that comes after a smaller one is left out if that one needs no more of the node's other
    resources: it fits wherever the larger one fits, and it costs less and is in no more doubt.
    """
    ordered = sorted(choices, key=lambda each: _preference(each.doubts, each.price, each.place))
    kept: list[Choice] = []
    for choice in ordered:
        if not any(
            each.place[0] == choice.place[0] and each.gpus <= choice.gpus and each.need.is_within(choice.need)
            for each in kept
        ):
            kept.append(choice)
    return tuple(kept)


def _preference(doubts: int, price: float, place: Place) -> tuple[int, float, int, int, int, Place]:
    split = place[1]
    return doubts, price, split.shape.gpus_per_pod, split.data_parallel, split.pipeline_parallel, place
