"""The optimum of an instance: fewest replicas without a place, then fewest doubts, then US dollars an hour.

A deployment's replicas may be mixed over GPU types, so no solver can do better. Nodes are packed exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.placement.bound.instance import Choice, Choices, Instance, sizes_of
from benchmarks.placement.bound.packing import divide_each_other, patterns, slot_rows, total_row
from benchmarks.placement.bound.programme import Programme, Solved


@dataclass(frozen=True, slots=True)
class Optimum:
    """The goals at the optimum. ``dollars`` is proven: no plan with the other figures costs less.

    ``mix`` is how many replicas of each kind get each choice.
    """

    unplaced: int
    doubts: int
    dollars: float
    proven: bool
    mix: Mapping[Choices, Mapping[Choice, int]]


def optimum(
    instance: Instance,
    *,
    by_type_only: bool = False,
    most_doubts: int | None = None,
) -> Optimum:
    """Return the optimum.

    ``by_type_only`` counts the GPUs of a type as if one node had all of them. If ``most_doubts`` is given, that many
    doubts are allowed, and dollars are minimised among all plans with no more of them.
    """
    return _Model(instance, by_type_only=by_type_only).optimum(most_doubts)


def unplaced_at_least(instance: Instance) -> int:
    """Return the number of replicas that no plan places."""
    model = _Model(instance)
    solved = model.programme.minimise([model.unplaced_goal()])
    return model.unplaced(solved)


@dataclass
class _Model:
    instance: Instance
    by_type_only: bool = False
    programme: Programme = field(default_factory=Programme)
    taken: dict[tuple[Choices, Choice], int] = field(default_factory=dict)
    short: dict[Choices, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        uses: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for kind, replicas in self.instance.replicas.items():
            row = {self.programme.column(replicas, integer=True): 1.0 for _ in kind}
            for column, choice in zip(row, kind, strict=True):
                self.taken[kind, choice] = column
                uses[choice.place].append(column)
            self.short[kind] = self.programme.column(replicas)
            self.programme.row({**row, self.short[kind]: 1.0}, replicas, replicas)
        self._pack(uses)

    def _pack(self, uses: Mapping[tuple[str, int], list[int]]) -> None:
        sizes = sizes_of(self.instance.replicas)
        for gpu_type in sorted({gpu_type for gpu_type, _ in uses}):
            nodes = self.instance.supply.get(gpu_type, {})
            columns = {size: uses.get((gpu_type, size), []) for size in sizes}
            if self.by_type_only or divide_each_other(sizes):
                rows = [total_row(sizes, nodes)] if self.by_type_only else slot_rows(sizes, nodes)
                for takes, slots in rows:
                    used = {each: float(count) for size, count in takes.items() for each in columns[size]}
                    self.programme.row(used, most=slots)
            else:
                self._pack_by_patterns(columns, nodes)

    def _pack_by_patterns(self, columns: Mapping[int, list[int]], nodes: Mapping[int, int]) -> None:
        room: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for free, count in nodes.items():
            row = {}
            for pattern in patterns(list(columns), free):
                column = self.programme.column(count, integer=True)
                row[column] = 1.0
                for size, slots in pattern.items():
                    room[size][column] = -float(slots)
            self.programme.row(row, most=count)
        for size, used in columns.items():
            self.programme.row({**dict.fromkeys(used, 1.0), **room[size]}, most=0)

    def unplaced_goal(self) -> dict[int, float]:
        return dict.fromkeys(self.short.values(), 1.0)

    def unplaced(self, solved: Solved) -> int:
        return round(sum(solved.values[column] for column in self.short.values()))

    def optimum(self, most_doubts: int | None) -> Optimum:
        doubts = {column: float(choice.doubts) for (_, choice), column in self.taken.items() if choice.doubts}
        dollars = {column: choice.dollars for (_, choice), column in self.taken.items()}
        goals = [self.unplaced_goal()]
        if most_doubts is None:
            goals.append(doubts)
        elif doubts:
            self.programme.row(doubts, most=most_doubts)
        solved = self.programme.minimise([*goals, dollars])
        return Optimum(
            unplaced=self.unplaced(solved),
            doubts=round(sum(count * solved.values[column] for column, count in doubts.items())),
            dollars=solved.bound,
            proven=solved.optimal,
            mix=self._mix(solved),
        )

    def _mix(self, solved: Solved) -> dict[Choices, dict[Choice, int]]:
        mix: defaultdict[Choices, dict[Choice, int]] = defaultdict(dict)
        for (kind, choice), column in self.taken.items():
            if count := round(solved.values[column]):
                mix[kind][choice] = count
        return dict(mix)
