"""Observations from all sources that the user names. It needs the API's models: only ``later`` imports this module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll.app.lessons import common_lessons, lessons, remembered
from plimsoll.app.record.reading import read, whole_status
from plimsoll.app.spec_digests import digests_of
from plimsoll.cli.files import title
from plimsoll.cli.later import inference_deployments
from plimsoll.cli.observation_files import all_observations
from plimsoll.cli.teachers import Lessons, Taught, Teachers
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.observations import Correction, Seen
from plimsoll.domain.serving import Request

Body = Mapping[str, Any]


def lessons_of(teachers: Teachers) -> Lessons:
    """Return what all sources teach.

    Raises:
        InvalidInput: a file cannot be used.
        PlimsollError: the cluster cannot be reached.
    """
    files = all_observations(teachers.files, "--observations")
    taught = [Taught(title(name), Seen(each, "")) for name, observations, _ in files for each in observations]
    left_out, notes = sum(ignored for _, __, ignored in files), []
    if teachers.from_cluster:
        bodies, refusals = inference_deployments(teachers.namespace, teachers.access)
        taught += [each for body in bodies for each in _taught_by(body)]
        left_out += sum(map(_left_out, bodies))
        notes += [*refusals, *_count_note(bodies, teachers.namespace)]
    return Lessons(tuple(taught), (*notes, *_left_out_note(left_out)))


def corrections_for(request: Request, found: Lessons) -> tuple[Correction, ...]:
    """Return the corrections for the request's model, as the operator finds them for an object of its cluster."""
    own = (each.seen for each in found.taught if each.key is not None and each.key == request.key)
    common = common_lessons(each.seen for each in found.taught)
    return lessons(own, common.get(request.model.name, ()))


def _taught_by(body: Body) -> Iterator[Taught]:
    """Yield the observations of one object that count, as the operator counts them."""
    head = body["metadata"]
    key = ObjectKey(str(head["namespace"]), str(head["name"]))
    for seen in remembered(read(body.get("status")).observations, digests_of(body.get("spec")).engine):
        yield Taught(f"{key.namespace}/{key.name}", seen, key)


def _left_out(body: Body) -> int:
    """Count the observations of another Plimsoll release, which predicted with another memory law."""
    record = read(body.get("status"))
    return len(whole_status(record).observations or ()) - len(record.observations)


def _count_note(bodies: Sequence[Body], namespace: str | None) -> Iterator[str]:
    where = "the cluster" if namespace is None else f"namespace {namespace}"
    if not bodies:
        yield f"No InferenceDeployment was read in {where}."


def _left_out_note(count: int) -> Iterator[str]:
    if count:
        yield f"{_observations(count)} of another Plimsoll release left out: its memory law predicted something else."


def _observations(count: int) -> str:
    return "1 observation" if count == 1 else f"{count} observations"
