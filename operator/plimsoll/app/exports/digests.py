"""Digests of specs in a snapshot: the operator compares them, and the snapshot holds other specs than the cluster.

A digest that is equal to that of the real spec becomes the digest of the spec in the snapshot, so that it is equal
there, too. Any other digest stays another one. So each comparison has the same result, and no digest of a left-out
value gets into the file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from plimsoll.api.conversion.convert import platforms_of, to_workload_options
from plimsoll.api.conversion.engines import resource_on
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.app.exports.document import Body
from plimsoll.app.settings import Settings
from plimsoll.app.watch.store import key_of
from plimsoll.decision.pools import engine_that_runs
from plimsoll.decision.spec_digests import digests_of
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.placement.demands.pools import Decision, PlannedPool
from plimsoll.render.inputs import INPUTS_ANNOTATION, inputs_digest
from plimsoll.render.names import POOL_LABEL
from plimsoll.status.record.observations import recorded_platforms
from plimsoll.status.record.reading import record_of
from plimsoll.status.sharing import with_other_digests

ANOTHER = "another"
"""A digest of inputs that is equal to none."""

_DIGITS = 12


def with_digests(real: Body, written: Body, salt: str) -> dict[str, Any]:
    """Return an InferenceDeployment of a snapshot with the digests of its own spec in its status.

    Args:
        real: the object of the cluster.
        written: the same object in the snapshot.
        salt: hides digests of earlier specs.
    """
    before, after = digests_of(real.get("spec")), digests_of(written.get("spec"))
    if before.engine == after.engine:
        return dict(written)

    def translation(real: str, written: str) -> Callable[[object], str]:
        return lambda digest: written if digest == real else sha256(f"{salt}{digest}".encode()).hexdigest()[:_DIGITS]

    spec, size = translation(before.engine, after.engine), translation(before.size, after.size)
    start = translation(before.start, after.start)
    return {**written, "status": with_other_digests(written.get("status") or {}, spec, size, start)}


class Inputs:
    """The inputs of the pod templates of one object, in the cluster and in the snapshot.

    Args:
        real: the object of the cluster.
        written: the same object in the snapshot.
        settings: the operator's settings, and those in the snapshot.
    """

    def __init__(self, real: Body, written: Body, settings: tuple[Settings, Settings]) -> None:
        self._before, self._after = _options(real, settings[0]), _options(written, settings[1])

    @property
    def are_equal(self) -> bool:
        """Whether a template has the same digest in both."""
        return self._before is not None and self._before == self._after

    def translated(self, digest: str, pool: PlannedPool | None) -> str | None:
        """Return a digest for the snapshot; None if the placement that it was made with is not known."""
        if self.are_equal:
            return digest
        if pool is None or pool.choice is None or self._before is None or self._after is None:
            return None
        before, after = self._before.draining(pool.drain_seconds), self._after.draining(pool.drain_seconds)
        return inputs_digest(after, pool.choice) if inputs_digest(before, pool.choice) == digest else ANOTHER


def _options(body: Body, settings: Settings) -> WorkloadOptions | None:
    """The inputs that a spec sets. The digest does not contain name and uid."""
    try:
        resource = parse_inference_deployment(body)
        running = engine_that_runs(resource.spec.engine, record_of(body).pools)
        resource = resource if running is None else resource_on(resource, running)
        images = settings.images
        given = platforms_of(resource.spec.engine, images)
        platforms = recorded_platforms(record_of(body).status.image_platforms, given)
        annotated = settings.scrape_annotations
        options = to_workload_options(resource, images, scrape_annotations=annotated, platforms=platforms or given)
    except PlimsollError:
        return None
    return replace(options, key=key_of({"metadata": {"name": ""}}), uid="")


def with_inputs(workload: Body, inputs: Inputs | None, decision: Decision | None) -> dict[str, Any]:
    """Return a Deployment of a snapshot with the digest of the inputs of its template. Without one it never restarts.

    Args:
        workload: the Deployment.
        inputs: those of its owner; None if there is no owner.
        decision: what was decided about its owner.
    """
    head = workload["metadata"]
    annotations = dict(head.get("annotations") or {})
    digest = annotations.pop(INPUTS_ANNOTATION, None)
    if digest is None:
        return dict(workload)
    found = None if inputs is None else inputs.translated(digest, _pool(decision, head["labels"].get(POOL_LABEL)))
    kept = annotations if found is None else {**annotations, INPUTS_ANNOTATION: found}
    return {**workload, "metadata": {**head, "annotations": kept}}


def _pool(decision: Decision | None, pool: str | None) -> PlannedPool | None:
    return next((each for each in decision.pools if each.name == pool), None) if decision is not None else None
