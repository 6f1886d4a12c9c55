"""The body of a server-side apply. The API server reads it as YAML, of which JSON is a part, but for some characters.

Python writes a character beyond the basic plane as two escapes (a surrogate pair), which YAML refuses. Such characters
are written as they are; those that YAML does not take as they are stay escaped
(https://yaml.org/spec/1.2.2/#51-character-set).
"""

from __future__ import annotations

import json
import re
from typing import Any

CONTENT_TYPE = "application/apply-patch+yaml; charset=utf-8"
"""With the character set the client sends a text as it is; without it, it would make JSON of it once more."""

_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def apply_text(manifest: Any) -> str:
    """A manifest as text that is JSON and YAML alike."""
    return _NOT_PRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(manifest, ensure_ascii=False, allow_nan=False)
    )
