"""Observations from all sources that the user names. It needs the API's models: only ``later`` imports this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll.app.watch.store import key_of
from plimsoll.cli.cluster.teachers import Lessons, Taught, Teachers
from plimsoll.cli.later import cluster_of
from plimsoll.cli.reading.files import title
from plimsoll.cli.reading.observation_files import read_observations
from plimsoll.decision.lessons import CommonLessons, contribution, lessons, remembered, teaches_others
from plimsoll.decision.spec_digests import digests_of
from plimsoll.domain.decisions.observations import Correction, Seen
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import counted
from plimsoll.memory.calibration import corrections
from plimsoll.status.record.reading import read, whole_status

Body = Mapping[str, Any]


def lessons_of(teachers: Teachers) -> Lessons:
    """Return what all sources teach.

    Raises:
        InvalidInput: a file cannot be used.
        PlimsollError: the cluster cannot be reached.
    """
    taught, notes, left_out, contributions = list[Taught](), list[str](), 0, []
    for name in teachers.files:
        observations, ignored = read_observations(name, "--observations")
        taught += [Taught(title(name), Seen(each, "")) for each in observations]
        left_out += ignored
    if teachers.from_cluster:
        bodies, refusals = cluster_of(teachers.access).inference_deployments(teachers.namespace)
        for body in bodies:
            key, digest = key_of(body), digests_of(body.get("spec")).engine
            seen = remembered(read(body.get("status")).observations, digest)
            taught += [Taught(str(key), each, key) for each in seen]
            contributions.append(contribution(key, digest, seen, teaches=teaches_others(body.get("spec"))))
        left_out += sum(map(_left_out, bodies))
        notes += refusals
        if not bodies:
            where = "the cluster" if teachers.namespace is None else f"namespace {teachers.namespace}"
            notes.append(f"No InferenceDeployment was read in {where}.")
    if left_out:
        which = f"{counted(left_out, 'observation')} of another Plimsoll release left out"
        notes.append(f"{which}: its memory law predicted something else.")
    return Lessons(tuple(taught), tuple(notes), tuple(contributions))


def corrections_for(request: Request, found: Lessons, *, as_operator: bool) -> tuple[Correction, ...]:
    """Return the corrections for the request's model.

    A person who asks for an estimate names the sources, and all of them count. With ``as_operator``, those of the
    cluster count as the operator counts them for an object: not every other deployment is believed.
    """
    own = (each.seen for each in found.taught if each.key is not None and each.key == request.key)
    named = corrections(each.seen.observation for each in found.taught if each.key is None or not as_operator)
    known = {each.kind for each in named}
    common = CommonLessons(found.contributions if as_operator else ()).of(request.key, request.model.name)
    of_model = (each for each in named if each.kind.model == request.model.name)
    return lessons(own, (*of_model, *(each for each in common if each.kind not in known)))


def _left_out(body: Body) -> int:
    """Count the observations of another Plimsoll release, which predicted with another memory law."""
    record = read(body.get("status"))
    return len(whole_status(record).observations or ()) - len(record.observations)
