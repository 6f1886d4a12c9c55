"""The allowances of one pass, from the hour, the cluster's switch and the fleet's budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plimsoll.api.maintenance import windows_of
from plimsoll.api.v1alpha1 import RebalancingSpec
from plimsoll.app.approving import is_change
from plimsoll.app.maintenance import opening_of
from plimsoll.app.settings import Settings
from plimsoll.domain.keys import ObjectKey
from plimsoll.rebalance.allowance import Allowance
from plimsoll.rebalance.decide import kind_of
from plimsoll.rebalance.decisions import LoopDecision
from plimsoll.rebalance.fleet_budget import COUNTED, FleetBudget
from plimsoll.rebalance.history import ChangeHistory


@dataclass(slots=True)
class Allowances:
    """The allowances of one pass. ``budget`` counts what is carried out while the pass goes on."""

    suspended: bool
    budget: FleetBudget
    now: float

    @staticmethod
    def of(settings: Settings, histories: Iterable[tuple[ObjectKey, ChangeHistory]], now: float) -> Allowances:
        """Begin a pass.

        Args:
            settings: the switch and the bound.
            histories: the changes of every deployment, as its status has them.
            now: POSIX seconds.
        """
        budget = FleetBudget.of(settings.rebalancing_moves_per_hour, histories, now)
        return Allowances(settings.rebalancing_suspended, budget, now)

    def of_deployment(self, key: ObjectKey, spec: RebalancingSpec) -> Allowance:
        """Return what one deployment is allowed at its turn."""
        return Allowance(self.suspended, opening_of(windows_of(spec), self.now), self.budget.spent(key))

    def carried_out(self, key: ObjectKey, decision: LoopDecision) -> None:
        """Count a decision that was carried out in this pass."""
        if is_change(decision) and kind_of(decision) in COUNTED:
            self.budget = self.budget.with_one_more(key)
