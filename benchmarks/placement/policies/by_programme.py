"""Policies that let an integer programme choose GPU types, and then pack the largest replicas first by best fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.placement.bound.instance import (
    Choice,
    Choices,
    by_table,
    choice_of,
    choices_of,
    instance_of,
    options_of,
)
from benchmarks.placement.bound.optimum import optimum
from benchmarks.placement.policies.awarding import Given, awards
from benchmarks.placement.policies.shelf import Shelf
from plimsoll.domain.decisions.outcomes import Option
from plimsoll.placement.demands.demand import Demand
from plimsoll.placement.options.verdicts import rank
from plimsoll.placement.solvers.protocol import Award, Stock

Wish = tuple[int, Option]
"""A demand's number, and the option for one of its replicas."""


def solve_by_type(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Choose types by the sum of their free GPUs, without nodes. What does not fit then takes the cheapest room."""
    return _solve(demands, stock, by_type_only=True)


def solve_by_exact_mix(demands: Sequence[Demand], stock: Stock) -> Iterator[Award]:
    """Choose types by the optimum, which knows the nodes."""
    return _solve(demands, stock, by_type_only=False)


def _solve(demands: Sequence[Demand], stock: Stock, *, by_type_only: bool) -> Iterator[Award]:
    mix = optimum(instance_of(demands, stock), by_type_only=by_type_only).mix
    shelf, given = Shelf(stock), [Given() for _ in demands]
    wishes = sorted(_shared_out(demands, mix), key=lambda wish: -wish[1].split.gpus)
    homeless = [number for number, option in wishes if not _pack(option, given[number], shelf)]
    for number in homeless:
        for option in sorted(options_of(demands[number]), key=rank):
            if _pack(option, given[number], shelf):
                break
    return awards(demands, given, stock)


def _shared_out(demands: Sequence[Demand], mix: Mapping[Choices, Mapping[Choice, int]]) -> Iterator[Wish]:
    """Yield an option for each replica, as far as its kind has any left. The oldest demands choose first."""
    left = {kind: Counter(counts) for kind, counts in mix.items()}
    kinds, tables = by_table(choices_of), by_table(_by_choice)
    for number, demand in enumerate(demands):
        if demand.missing <= 0:
            continue
        options, kind = tables(demand), kinds(demand)
        for _ in range(demand.missing):
            choice = next((each for each in kind if left.get(kind, Counter())[each] > 0), None)
            if choice is not None:
                left[kind][choice] -= 1
                yield number, options[choice]


def _by_choice(demand: Demand) -> dict[Choice, Option]:
    """Return the first option for each choice."""
    return {choice_of(option): option for option in reversed(list(options_of(demand)))}


def _pack(option: Option, given: Given, shelf: Shelf) -> bool:
    room = next(shelf.rooms(option.gpu.name, option.split.gpus), None)
    if room is None:
        return False
    given.add(option, room[1], shelf)
    return True
