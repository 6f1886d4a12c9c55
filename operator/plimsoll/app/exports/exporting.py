"""Reads a cluster and makes a snapshot of it."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plimsoll import __version__
from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.cluster.api_errors import GONE
from plimsoll.adapters.cluster.client import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    INFERENCE_DEPLOYMENTS,
    Cluster,
    ClusterRefused,
    ObjectKind,
)
from plimsoll.adapters.cluster.kinds import NODE_POOLS
from plimsoll.api.checks.pod_policy import PodPolicy, check_pod_policy
from plimsoll.api.conversion.convert import check_without_model
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.app.exports.digests import Inputs, with_digests, with_inputs
from plimsoll.app.exports.document import Body, Export
from plimsoll.app.exports.hashing import Hashing, marked, names_of
from plimsoll.app.exports.reduction import KINDS, reduced
from plimsoll.app.exports.replaying import StoredCluster
from plimsoll.app.review.deciding import new_decider, node_pools_note, prices_note
from plimsoll.app.review.looking import ClusterLook, look, operator_settings
from plimsoll.app.review.values import Means
from plimsoll.app.settings import BILLINGS, Settings
from plimsoll.app.watch.node_groups import declared_in
from plimsoll.app.watch.store import key_of
from plimsoll.domain.engines.images import NO_REGISTRIES, REGISTRIES
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.demands.pools import Decision
from plimsoll.render.names import DEPLOYMENT_LABEL

_SALT_BYTES = 16

Bodies = Mapping[ObjectKind, Sequence[Body]]


@dataclass(frozen=True, slots=True)
class _Seen:
    at: float
    settings: Settings
    look: ClusterLook
    bodies: Bodies
    notes: tuple[str, ...]


async def export(
    cluster: Cluster,
    means: Means,
    environment: Mapping[str, str] = os.environ,
    *,
    hash_names: bool = False,
    now: float | None = None,
) -> Export:
    """Return a snapshot of everything that the operator's decision reads.

    Args:
        cluster: the cluster. No Secret of it is read.
        means: the sources of models, for objects with values that the snapshot leaves out.
        environment: environment variables of this process; a ``PLIMSOLL_`` variable replaces a setting.
        hash_names: replace names by digests.
        now: POSIX seconds; the file holds whole ones.

    Raises:
        PlimsollError: the cluster cannot be read.
    """
    seen = await _seen(cluster, environment, float(int(time.time() if now is None else now)))
    salt = secrets.token_hex(_SALT_BYTES)
    plain = environment_of(seen.settings)
    written = {kind: [reduced(kind, body) for body in seen.bodies.get(kind, ())] for kind in KINDS}
    settings = dict(plain)
    if hash_names:
        spaces = (seen.settings.namespace, *seen.settings.watch_namespaces)
        hashing = Hashing(names_of(written, spaces, salt))
        written = {kind: [hashing.hashed(kind, body) for body in bodies] for kind, bodies in written.items()}
        settings = hashing.settings(plain)
        written[INFERENCE_DEPLOYMENTS] = _marked(seen, written[INFERENCE_DEPLOYMENTS])
    owners = list(zip(seen.bodies[INFERENCE_DEPLOYMENTS], written[INFERENCE_DEPLOYMENTS], strict=True))
    written[INFERENCE_DEPLOYMENTS] = [with_digests(real, body, salt) for real, body in owners]
    written[DEPLOYMENTS] = await _with_inputs(seen, owners, written[DEPLOYMENTS], settings, means)
    bodies = [body for kind in KINDS for body in written[kind]]
    notes = tuple(_without_details(note) if hash_names else note for note in seen.notes)
    return Export(seen.at, __version__, settings, bodies, notes, hashed=hash_names)


async def _seen(cluster: Cluster, environment: Mapping[str, str], now: float) -> _Seen:
    settings, about_settings = await operator_settings(cluster, environment)
    PodPolicy.from_json(settings.pod_policy or "{}")  # a setting that cannot be used must not get into a file
    declared_in(settings.node_groups, load_gpu_types())
    found = await look(cluster, settings)
    prices, about_prices = await _prices(cluster, settings)
    pools, about_pools = await _node_pools(cluster, settings)
    bodies: dict[ObjectKind, Sequence[Body]] = {kind: found.picture.all(kind) for kind in found.picture.pages}
    bodies |= {
        INFERENCE_DEPLOYMENTS: [found.live[key] for key in sorted(found.live)],
        CONFIG_MAPS: prices,
        NODE_POOLS: pools,
    }
    return _Seen(now, settings, found, bodies, (*about_settings, *found.notes, *about_prices, *about_pools))


async def _prices(cluster: Cluster, settings: Settings) -> tuple[Sequence[Body], tuple[str, ...]]:
    try:
        found = await cluster.get(CONFIG_MAPS, ObjectKey(settings.namespace, settings.prices_configmap))
    except PlimsollError as error:
        return (), (prices_note(error),)
    return () if found is None else (found,), ()


async def _node_pools(cluster: Cluster, settings: Settings) -> tuple[Sequence[Body], tuple[str, ...]]:
    if not settings.read_node_pools:
        return (), ()
    try:
        return (await cluster.list(NODE_POOLS)).items, ()
    except PlimsollError as error:
        is_absent = isinstance(error, ClusterRefused) and error.status == GONE
        return (), () if is_absent else (node_pools_note(error),)


def _without_details(note: str) -> str:
    """The note without the API server's sentence in brackets, which names users and namespaces."""
    return re.sub(r" \(.*\)(?=:)", "", note, flags=re.DOTALL)


def _marked(seen: _Seen, written: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the objects that are refused because of their pods: most fields of pods are not in a hashed snapshot."""
    policy = PodPolicy.from_json(seen.settings.pod_policy or "{}")
    pairs = zip(seen.bodies[INFERENCE_DEPLOYMENTS], written, strict=True)
    return [marked(body) if _is_refused(real, policy) else body for real, body in pairs]


def _is_refused(body: Body, policy: PodPolicy) -> bool:
    try:
        spec = parse_inference_deployment(body).spec
        check_without_model(spec)
        check_pod_policy(spec, policy, str(body["metadata"]["namespace"]))
    except PlimsollError:
        return True
    return False


async def _with_inputs(
    seen: _Seen,
    owners: Sequence[tuple[Body, Body]],
    written: Sequence[dict[str, Any]],
    settings: Mapping[str, str],
    means: Means,
) -> list[dict[str, Any]]:
    """Translate the digests of templates. Only templates with left-out values need the operator's decision for that."""
    both = seen.settings, Settings.from_environment(settings)
    inputs = {key_of(real): Inputs(real, body, both) for real, body in owners}
    real = [_owner_of(body) for body in seen.bodies[DEPLOYMENTS]]
    needs_decision = any(key in inputs and not inputs[key].are_equal for key in real)
    decisions = await _decisions(seen, means) if needs_decision else {}
    return [with_inputs(body, inputs.get(key), decisions.get(key)) for key, body in zip(real, written, strict=True)]


def _owner_of(workload: Body) -> ObjectKey:
    head = workload["metadata"]
    return ObjectKey(str(head.get("namespace")), str((head.get("labels") or {}).get(DEPLOYMENT_LABEL)))


async def _decisions(seen: _Seen, means: Means) -> Mapping[ObjectKey, Decision | None]:
    needed = [{"apiVersion": kind.api_version, "kind": kind.kind, **body} for kind in (CONFIG_MAPS, NODE_POOLS)
              for body in seen.bodies[kind]]  # fmt: skip
    cluster = StoredCluster(Export(seen.at, __version__, environment_of(seen.settings), needed))
    async with new_decider(cluster, seen.settings, means) as (decider, _):
        done = await decider.decided(seen.look.picture, seen.at)
    return {each.key: each.outcome.decision for each in done.desired}


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Return the variables from which :meth:`Settings.from_environment` reads the same. Unset ones are left out.

    The address of Prometheus is no part of them: no live load is read, and an address may hold a password. Nor are the
    registries of images: a snapshot is decided with what was known of images when it was made.
    """
    found = {
        "PLIMSOLL_NAMESPACE": settings.namespace,
        "PLIMSOLL_WATCH_NAMESPACES": ",".join(settings.watch_namespaces),
        "PLIMSOLL_READ_ALL_PODS": _switch(on=settings.read_all_pods),
        "PLIMSOLL_NODE_GROUPS": settings.node_groups,
        "PLIMSOLL_READ_NODE_POOLS": _switch(on=settings.read_node_pools),
        "PLIMSOLL_BILLING": next((word for word, each in BILLINGS.items() if each is settings.billing), ""),
        "PLIMSOLL_OBJECTIVE": settings.objective.value,
        "PLIMSOLL_GPU_VENDORS": ",".join(vendor.value.upper() for vendor in settings.gpu_vendors),
        "PLIMSOLL_OVERLOAD": settings.overload.value,
        "PLIMSOLL_LEARN_FROM_OTHERS": "" if settings.learn_from_others else "false",
        "PLIMSOLL_PRICES_CONFIGMAP": settings.prices_configmap,
        "PLIMSOLL_POD_POLICY": settings.pod_policy,
        "PLIMSOLL_ENGINE_IMAGE_NVIDIA": settings.engine_image_nvidia,
        "PLIMSOLL_ENGINE_IMAGE_AMD": settings.engine_image_amd,
        "PLIMSOLL_ENGINE_REGISTRY": settings.engine_registry,
        REGISTRIES: NO_REGISTRIES,
        "PLIMSOLL_SCRAPE_ANNOTATIONS": _switch(on=settings.scrape_annotations),
        "PLIMSOLL_STRANDED_SECONDS": str(settings.stranded_seconds),
        "PLIMSOLL_MOVE_SECONDS": str(settings.move_seconds),
    }
    return {name: value for name, value in found.items() if value}


def _switch(*, on: bool) -> str:
    return "true" if on else ""
