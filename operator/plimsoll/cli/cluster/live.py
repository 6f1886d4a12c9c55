"""The command line's requests to a cluster. They need the cluster's client: only ``later`` imports this module."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kubernetes.aio import config

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, GONE, OF_PEOPLE, ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS, PROPOSALS
from plimsoll.adapters.cluster.kubeconfigs import UNREADABLE, NoCluster, check_exists
from plimsoll.cli.cluster.acknowledging import (
    FindingAnswer,
    GivenAcknowledgement,
    acknowledgement,
    acknowledgement_body,
)
from plimsoll.cli.cluster.answering import GivenAnswer, ProposalAnswer, approval, meant
from plimsoll.cli.cluster.options import ClusterAccess
from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.names import pod_selector

Body = dict[str, Any]
Found = tuple[Sequence[Body], tuple[str, ...]]

T = TypeVar("T")

_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file in which Kubernetes gives a pod its own namespace."""


def answered(asking: Coroutine[Any, Any, T]) -> T:
    """Run ``asking`` and return what it returns, which asyncio does not get to see.

    ``asyncio.run`` asks for the handler of SIGINT at its end. Python's ``signal`` then formats that handler, with the
    finished task and the ``repr`` of its result: 25 ms for a megabyte of objects, measured with Python 3.11.
    """
    answers: list[T] = []

    async def ask() -> None:
        answers.append(await asking)

    asyncio.run(ask())
    return answers[0]


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """A cluster as this user reaches it."""

    access: ClusterAccess

    async def ask(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Return what ``work`` finds. Raises :class:`PlimsollError`: the cluster does not answer, or refuses it."""
        try:
            async with Cluster(self.access.file, self.access.context, patience=OF_PEOPLE) as cluster:
                return await work(cluster)
        except NoCluster:
            raise
        except SourceUnavailable as error:
            raise SourceUnavailable(f"{error}. {_which(self.access)}") from error

    def check(self) -> None:
        """Raise :class:`PlimsollError` if the cluster cannot be reached. It may refuse whatever it likes."""

        async def work(cluster: Cluster) -> None:
            with suppress(ClusterRefused):
                await cluster.user_name()

        answered(self.ask(work))

    def inference_deployment(self, key: ObjectKey) -> Body | None:
        """One InferenceDeployment, or None."""
        return answered(self.ask(lambda cluster: cluster.get(INFERENCE_DEPLOYMENTS, key)))

    def inference_deployments(self, namespace: str | None) -> Found:
        """Return the objects of one namespace, or of all, and notes on what may not be read.

        If the user may not read all namespaces, the objects of the namespace of the context are returned.

        Raises:
            SourceUnavailable: the cluster cannot be reached.
        """
        home = default_namespace(self.access.file, self.access.context)
        return answered(self.ask(lambda cluster: _readable(cluster, namespace, home)))

    def answer_proposal(self, answer: ProposalAnswer) -> GivenAnswer:
        """Create a PlacementApproval in this user's name. Return what was done.

        Raises:
            InvalidInput: it is not clear which proposal is meant.
            PlimsollError: the cluster does not answer, or refuses it.
        """
        namespace = answer.namespace or default_namespace(self.access.file, self.access.context)

        async def work(cluster: Cluster) -> GivenAnswer:
            proposal = meant(answer, namespace, await _proposals(cluster, answer.deployment, namespace))
            key, by = await put_answer(cluster, answer, proposal, namespace)
            return GivenAnswer(answer, proposal, key, by)

        return answered(self.ask(work))

    def acknowledge(self, answer: FindingAnswer) -> GivenAcknowledgement:
        """Create a PlacementApproval that acknowledges a finding, in this user's name. Return what was done.

        Raises:
            InvalidInput: there is no such deployment or finding, or the end cannot be used.
            PlimsollError: the cluster does not answer, or refuses it.
        """
        key = ObjectKey(answer.namespace or default_namespace(self.access.file, self.access.context), answer.deployment)

        async def work(cluster: Cluster) -> GivenAcknowledgement:
            body = await cluster.get(INFERENCE_DEPLOYMENTS, key)
            if body is None:
                raise no_deployment(key)
            return await put_acknowledgement(cluster, answer, body, time.time())

        return answered(self.ask(work))


async def put_acknowledgement(
    cluster: Cluster, answer: FindingAnswer, body: Mapping[str, Any], now: float
) -> GivenAcknowledgement:
    """Create the PlacementApproval that acknowledges a finding in this user's own name. Return what was done.

    Raises:
        InvalidInput: there is no such finding, or the end cannot be used.
        PlimsollError: the cluster does not answer, or refuses it.
    """
    spec = acknowledgement(answer, body, await cluster.user_name(), now)
    made = await cluster.create(acknowledgement_body(spec, body))
    return GivenAcknowledgement(spec, ObjectKey(made["metadata"]["namespace"], made["metadata"]["name"]))


def no_deployment(key: ObjectKey) -> InvalidInput:
    """Return the error about a deployment that does not exist."""
    fix = f"There is no InferenceDeployment {key}: name another one, or its namespace with -n."
    return InvalidInput("NAME", key.name, fix)


def default_namespace(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of the kubeconfig's context, or of this pod's service account; else ``default``."""
    try:
        check_exists(kubeconfig)
        contexts, current = config.list_kube_config_contexts(kubeconfig)
    except (NoCluster, *UNREADABLE):
        return _namespace_of_pod()
    chosen = next((each for each in contexts if each["name"] == context), current if context is None else {})
    return str((chosen or {}).get("context", {}).get("namespace") or "default")


def _namespace_of_pod() -> str:
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"


async def put_answer(
    cluster: Cluster, answer: ProposalAnswer, proposal: Mapping[str, Any], namespace: str
) -> tuple[ObjectKey, str]:
    """Create the PlacementApproval that answers a proposal in this user's own name. Return it, and the name.

    Raises:
        PlimsollError: the cluster does not answer, or refuses it.
    """
    by = await cluster.user_name()
    made = await cluster.create(approval(answer, proposal, namespace, by))
    return ObjectKey(namespace, made["metadata"]["name"]), by


async def _proposals(cluster: Cluster, deployment: str, namespace: str) -> Sequence[Body]:
    try:
        return (await cluster.list(PROPOSALS, labels=pod_selector(deployment), namespace=namespace)).items
    except ClusterRefused as refusal:
        if refusal.status != GONE:
            raise
        fix = "Upgrade Plimsoll's chart with its CRDs, and leave its value approvals true"
        raise PlimsollError(f"the cluster has no PlacementProposals. {fix}.") from refusal


_NOT_INSTALLED = "The cluster has no InferenceDeployments: Plimsoll's CRDs are not installed there."


async def _readable(cluster: Cluster, namespace: str | None, home: str) -> Found:
    try:
        return await _listed(cluster, namespace), ()
    except ClusterRefused as refusal:
        if refusal.status == GONE:
            return (), (_NOT_INSTALLED,)
        if refusal.status != FORBIDDEN:
            raise
        if namespace is not None:
            return (), (_refused(namespace, refusal),)
        note = (
            f"InferenceDeployments of all namespaces may not be read ({refusal.message}): only those of {home} count."
        )
    try:
        return await _listed(cluster, home), (note,)
    except ClusterRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return (), (_refused(home, refusal),)


async def _listed(cluster: Cluster, namespace: str | None) -> Sequence[Body]:
    if namespace is None:
        return (await cluster.list(INFERENCE_DEPLOYMENTS)).items
    return (await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace)).items


def _refused(namespace: str, refusal: ClusterRefused) -> str:
    why = refusal.message
    return f"InferenceDeployments of namespace {namespace} may not be read ({why}): the memory law alone counts."


def _which(access: ClusterAccess) -> str:
    file = "kubectl's default kubeconfig" if access.file is None else f"kubeconfig {access.file}"
    context = "its current context" if access.context is None else f"context {access.context}"
    return f"It was asked with {file} and {context}: name another one with --kubeconfig or --context."
