"""Makes the status of an object from a report. All fields pass through the API's model: no other field can be sent."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus, StatusModel
from plimsoll.status.conditions import Since
from plimsoll.status.reading import Record, shown_parts
from plimsoll.status.rendering import status as render
from plimsoll.status.report import Report


def new_status(report: Report, record: Record, now: str) -> InferenceDeploymentStatus:
    """The status after this report. A field that the report does not render stays as it was. ``now`` is RFC 3339.

    Raises:
        ValidationError: the report renders a field or a value that the API does not have.
    """
    since = {each.type: Since(each.status, each.last_transition_time) for each in record.status.conditions or ()}
    rendered = InferenceDeploymentStatus.model_validate(render(report, since, now), by_name=True, by_alias=False)
    changed = {name: getattr(rendered, name) for name in rendered.model_fields_set}
    kept = shown_parts(record, InferenceDeploymentStatus.model_fields.keys() - changed.keys())
    return InferenceDeploymentStatus.model_construct(**kept, **changed)


def document_of(status: StatusModel) -> dict[str, Any]:
    """A status, or a part of one, as it is sent, without None and without empty lists: an absent field means the same.

    A list that its model requires is sent, although it is empty: without it the whole entry could not be read again.
    """
    return _without_empty(status, status.model_dump(by_alias=True, exclude_none=True))


def _without_empty(model: BaseModel, document: dict[str, Any]) -> dict[str, Any]:
    fields = {field.alias or name: (name, field.is_required()) for name, field in type(model).model_fields.items()}
    written = {}
    for key, value in document.items():
        name, is_required = fields[key]
        part = getattr(model, name)
        if value != [] or is_required:
            written[key] = _without_empty(part, value) if isinstance(part, BaseModel) else value
    return written
