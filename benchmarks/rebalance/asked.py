"""The arguments of the command."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rebalance.asked_trace import add_trace_options, asked_situation
from benchmarks.rebalance.scenarios.known import QUICK, quick
from benchmarks.rebalance.scenarios.situation import FIRST_SEED, SETS, Group, Situation

ALL = "all"
MOST_SEEDS = FIRST_SEED[Group.VALIDATION] - FIRST_SEED[Group.TUNING]
"""More seeds would be in both sets."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The policies and situations of a run. ``jobs`` runs are made at the same time."""

    policies: Sequence[str]
    situations: Sequence[Situation]
    seeds: int
    jobs: int
    only_list: bool
    json: Path | None
    width: int


def asked(
    arguments: Sequence[str] | None,
    policies: Collection[str],
    situations: Mapping[str, Situation],
    hindsights: Collection[str] = (),
) -> Asked:
    """Read the arguments. Wrong ones end the command with a message. ``hindsights`` only run if they are named."""
    parser = _parser(policies, situations, hindsights)
    found = parser.parse_args(arguments)
    try:
        return Asked(
            policies=list(policies)
            if found.policies is None
            else _known(found.policies, [*policies, *hindsights], "--policies"),
            situations=_own_or_chosen(found, situations),
            seeds=1 if found.quick and found.seeds is None else found.seeds or 2,
            jobs=found.jobs,
            only_list=found.list,
            json=found.json,
            width=found.width,
        )
    except ValueError as error:
        parser.error(str(error))


def _parser(
    policies: Collection[str], situations: Collection[str], hindsights: Collection[str]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rebalance", description=__doc__)
    known = ", ".join(policies)
    named = f"of {known}; usually all of them; and {' and '.join(hindsights)}, which take several runs of each scenario"
    parser.add_argument("--policies", metavar="NAMES", help=named)
    parser.add_argument("--scenarios", metavar="NAMES", help=f"of {', '.join(situations)}; usually all of the set")
    parser.add_argument("--set", metavar="SET", default=ALL, help=f"of {', '.join(SETS)}, {ALL}; usually {ALL}")
    parser.add_argument("--seeds", type=_seeds, metavar="N", help="runs of each scenario, usually 2")
    parser.add_argument("--jobs", type=_positive, default=1, metavar="N", help="runs at the same time, usually 1")
    parser.add_argument(
        "--quick", action="store_true", help=f"one seed of the beginnings of {', '.join(QUICK)}: some minutes"
    )
    parser.add_argument("--list", action="store_true", help="say what each scenario tests, and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure")
    parser.add_argument("--width", type=_positive, default=160, metavar="N", help="columns of the terminal")
    add_trace_options(parser)
    return parser


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def _seeds(text: str) -> int:
    if _positive(text) > MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"at most {MOST_SEEDS}, so that no seed is in both sets")
    return int(text)


def _own_or_chosen(found: argparse.Namespace, situations: Mapping[str, Situation]) -> list[Situation]:
    """Return the situation of the user's own trace, or those of the sets.

    Raises:
        ValueError: the trace or what belongs to it is wrong, both are asked for, or :func:`_chosen` raises it.
    """
    own = asked_situation(found)
    if own is None:
        return _chosen(found, situations)
    if found.scenarios is not None or found.quick or found.set != ALL:
        raise ValueError("--trace: it is a scenario of its own; leave out --scenarios, --set and --quick")
    return [own]


def _chosen(found: argparse.Namespace, situations: Mapping[str, Situation]) -> list[Situation]:
    """Return the situations that are named, or those of the quick look, or all, as far as they are in the set.

    Raises:
        ValueError: a scenario or a set is unknown, or a named scenario is not in the set.
    """
    _known(found.set, [*SETS, ALL], "--set")
    of_set = [name for name, each in situations.items() if found.set in (ALL, each.group)]
    if found.scenarios is not None:
        named = _known(found.scenarios, list(situations), "--scenarios")
        of_set = _known(",".join(named), of_set, f"--scenarios in the {found.set} set")
    elif found.quick:
        return [each for each in quick() if found.set in (ALL, each.group)]
    return [situations[name] for name in of_set]


def _known(text: str | None, known: Sequence[str], option: str) -> list[str]:
    """Return the names in a text in their order and once each, or all names where there is no text.

    Raises:
        ValueError: a name is unknown.
    """
    names = list(known) if text is None else list(dict.fromkeys(text.split(",")))
    if unknown := [repr(name) for name in names if name not in known]:
        raise ValueError(f"{option}: {', '.join(unknown)} is unknown; there are {', '.join(known)}")
    return names
