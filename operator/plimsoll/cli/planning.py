"""``plimsoll plan``: decide for manifests without touching anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.convert import to_request, to_workload_options
from plimsoll.api.gpu_names import check_gpu_names
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.cli.context import draft_of, model_of
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.fleet import Fleet
from plimsoll.placement.plan import plan
from plimsoll.placement.pools import Decision, Tenant
from plimsoll.render.command import engine_arguments
from plimsoll.render.objects import deployment, disruption_budget, service
from plimsoll.render.report import Report
from plimsoll.render.status import status


@dataclass(frozen=True, slots=True)
class Planned:
    """One manifest and what would become of it."""

    resource: InferenceDeployment
    decision: Decision

    @property
    def is_placed(self) -> bool:
        """Whether every replica has a place."""
        return self.decision.missing == 0

    def document(self) -> dict[str, Any]:
        """The decision as data: what the status would say, and the engine's arguments."""
        told = status(self.report(), {}, now="")
        fields = ("model", "estimate", "placement", "pools", "rejections", "remedies")
        head = {
            "namespace": self.resource.metadata.namespace,
            "name": self.resource.metadata.name,
            "placed": self.is_placed,
            "reason": told["conditions"][0]["reason"] if not self.is_placed else "Placed",
        }
        body = {field: told[field] for field in fields if field in told}
        if not self.is_placed:
            head["message"] = told["conditions"][0]["message"]
        choice = self.decision.choice
        return head | body | ({} if choice is None else {"engineArguments": self.arguments()})

    def arguments(self) -> list[str]:
        """What the engine would be started with; empty where nothing is placed."""
        choice = self.decision.choice
        return [] if choice is None else engine_arguments(to_workload_options(self.resource), choice)

    def objects(self) -> list[dict[str, Any]]:
        """The objects that the operator would apply."""
        options = to_workload_options(self.resource)
        pools = [deployment(options, pool, pool.choice) for pool in self.decision.pools if pool.choice is not None]
        return [service(options), disruption_budget(options), *pools] if pools else []

    def report(self) -> Report:
        """The report that the operator's status would be made of."""
        return Report(
            name=self.resource.metadata.name,
            namespace=self.resource.metadata.namespace,
            generation=self.resource.metadata.generation,
            replicas=self.decision.request.replicas,
            decision=self.decision,
            model=self.decision.request.model,
            engine_version=self.resource.spec.engine.version,
        )


def plan_manifests(resources: Sequence[InferenceDeployment], fleet: Fleet) -> list[Planned]:
    """Plan manifests together, as if applied in this order.

    Raises:
        PlimsollError: a manifest or its model cannot be used.
    """
    _refuse_namesakes(resources)
    known = {gpu.name for gpu in (*load_gpu_types(), *fleet.gpu_types())}
    for resource in resources:
        check_gpu_names(resource.spec, known)
    requests = [to_request(resource, model_of(resource), draft=draft_of(resource)) for resource in resources]
    tenants = [
        Tenant(replace(request, created=f"{index:06d}"), resource.metadata.generation)
        for index, (request, resource) in enumerate(zip(requests, resources, strict=True))
    ]
    decisions = {decision.request.key: decision for decision in plan(tenants, fleet, load_gpu_types())}
    for decision in decisions.values():
        if decision.failure:
            raise PlimsollError(decision.failure)
    return [Planned(resource, decisions[request.key]) for request, resource in zip(requests, resources, strict=True)]


def _refuse_namesakes(resources: Sequence[InferenceDeployment]) -> None:
    names = [(resource.metadata.namespace, resource.metadata.name) for resource in resources]
    for namespace, name in names:
        if names.count((namespace, name)) > 1:
            raise InvalidInput(
                "metadata.name", f"{namespace}/{name}", "Give every InferenceDeployment a name of its own."
            )
