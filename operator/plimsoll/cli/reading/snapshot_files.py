"""Snapshots of ``plimsoll fleet export``, read from files."""

from __future__ import annotations

from plimsoll.app.exports.document import read_export
from plimsoll.app.exports.values import Export
from plimsoll.cli.reading.files import read_text, title
from plimsoll.cli.reading.shapes import refuse_misshapen
from plimsoll.domain.errors import InvalidInput


def snapshot_from(path: str) -> Export:
    """Return the snapshot of a file or of standard input.

    Raises:
        InvalidInput: it cannot be read or is no snapshot. The message names the file, the field and the fix.
    """
    found = read_export(read_text(path), title(path))
    for index, body in enumerate(found.bodies):
        try:
            refuse_misshapen(dict(body))
        except InvalidInput as error:
            raise InvalidInput(f"{title(path)}: objects[{index}]: {error.field}", error.value, error.fix) from error
    return found
