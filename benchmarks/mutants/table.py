"""The report of a mutation run: a table with a row for each area, then the survivors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.mutants.mutant import Mutant, Verdict

Results = Sequence[tuple[Mutant, Verdict]]


def score(results: Results) -> float | None:
    """Return the share that tests noticed, without equivalent and undecided ones; None where none is left."""
    counts = Counter(verdict for _, verdict in results)
    noticed = counts[Verdict.KILLED] + counts[Verdict.TIMED_OUT]
    counted = noticed + counts[Verdict.SURVIVED]
    return noticed / counted if counted else None


def table(found: Mapping[str, Results]) -> str:
    """Return one row for each area, in Markdown."""
    lines = [f"| area | mutants | {' | '.join(Verdict)} | score |", "|---|---|---|---|---|---|---|---|"]
    for name, results in found.items():
        counts = Counter(verdict for _, verdict in results)
        shares = score(results)
        shown = "-" if shares is None else f"{shares:.1%}"
        columns = [counts[each] for each in Verdict]
        lines.append(f"| {name} | {len(results)} | {' | '.join(map(str, columns))} | {shown} |")
    return "\n".join(lines)


def survivors(found: Mapping[str, Results]) -> str:
    """Return each survivor: where it is, and the change that no test noticed."""
    alive = [mutant for results in found.values() for mutant, verdict in results if verdict is Verdict.SURVIVED]
    return "\n".join(_shown(mutant) for mutant in sorted(alive, key=lambda each: (each.file, each.line)))


def _shown(mutant: Mutant) -> str:
    lines = [f"{mutant.file}:{mutant.line} {mutant.function}".rstrip()]
    lines += [f"  - {line}" for line in mutant.before.splitlines()]
    lines += [f"  + {line}" for line in mutant.after.splitlines()]
    return "\n".join(lines)
