"""The HiGHS library as the solver of mixed-integer programmes. It is imported when the first programme comes.

The package's extra ``solver`` installs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

from plimsoll.placement.solvers import Fleetwide, Overload
from plimsoll.placement.solvers.formulation import Programme, Solution

RELATIVE_GAP = 1e-3
"""A plan within a thousandth of the proven bound is good enough: prices are not known better."""

MOST_NODES = 2_000
"""The most nodes of the search tree. A limit in nodes gives the same plan on every machine; one in seconds does not."""

MOST_ITERATIONS = 60_000
"""The most iterations of the simplex method for all programmes of one decision, counted after each programme. HiGHS
makes 2,000 to 12,000 a second on such programmes. With many replicas without a place, 435 deployments on 250 nodes
needed 5,034 together, 5,000 of 100 kinds on 5,000 nodes 20,989, and 1,374 of 800 kinds on 1,250 nodes 26,089."""

MOST_SECONDS = 30.0
"""The most seconds for all programmes of one decision: a last resort, since a pass must end within a minute. It is the
only limit that depends on how busy a machine is."""


def fleetwide(overload: Overload = Overload.SENIORITY) -> Fleetwide:
    """Return a solver that decides for the whole fleet with HiGHS, and by its own search beyond HiGHS' limits."""
    return Fleetwide(Highs, overload)


@dataclass(slots=True)
class Highs:
    """Solves the programmes of one decision with one thread and a fixed seed, with limits for all of them together."""

    iterations: int = MOST_ITERATIONS
    seconds: float = MOST_SECONDS

    def __call__(self, programme: Programme) -> Solution | None:
        """Return the best solution found; None if there is none, or none was found within the limits."""
        if self.seconds <= 0 or self.iterations <= 0:
            return None
        start = monotonic()
        solution, iterations = _solve(programme, self.seconds)
        self.seconds -= monotonic() - start
        self.iterations -= iterations
        return solution


def _solve(programme: Programme, seconds: float) -> tuple[Solution | None, int]:
    """Return the best solution found, and how many iterations were made."""
    import highspy  # noqa: PLC0415 - a fifth of a second that only those pay who solve something

    highs: Any = _quiet(highspy)
    for option, value in (_OPTIONS | {"time_limit": seconds}).items():
        highs.setOptionValue(option, value)
    highs.passModel(_model(highspy, programme))
    highs.run()
    info = highs.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None, info.simplex_iteration_count
    values = tuple(round(value) for value in highs.getSolution().col_value)
    return Solution(values, info.objective_function_value, info.mip_dual_bound), info.simplex_iteration_count


def _quiet(highspy: Any) -> Any:
    """Return a solver that has printed nothing yet.

    From 1.16 on HiGHS greets on standard output when the first callback is set, which its constructor does before any
    option could say no. Nothing here needs callbacks.
    """

    class Quiet(highspy.Highs):  # type: ignore[misc] # a class that is imported when it is needed
        """A solver without callbacks."""

        def enableCallbacks(self) -> None:  # noqa: N802 - HiGHS' name
            """Set none."""

    return Quiet()


_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 7,
    "mip_rel_gap": RELATIVE_GAP,
    "mip_max_nodes": MOST_NODES,
}


def _model(highspy: Any, programme: Programme) -> Any:
    """Return HiGHS' form of a programme: its rows one after the other in compressed form."""
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(programme.costs), len(programme.rows)
    model.col_cost_ = programme.costs
    model.col_lower_ = [0.0] * len(programme.costs)
    model.col_upper_ = programme.limits
    model.row_lower_ = [low for low, _, _ in programme.rows]
    model.row_upper_ = [high for _, _, high in programme.rows]
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(programme.costs)
    starts, columns, weights = [0], list[int](), list[float]()
    for _, entries, _ in programme.rows:
        columns.extend(column for column, _ in entries)
        weights.extend(weight for _, weight in entries)
        starts.append(len(columns))
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    matrix.start_, matrix.index_, matrix.value_ = starts, columns, weights
    return model
