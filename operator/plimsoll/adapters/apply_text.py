"""The body of a server-side apply. The API server reads it as YAML. JSON is valid YAML except for some characters.

Python writes a character beyond the basic plane as two escapes (a surrogate pair), which YAML refuses. So these
characters are not escaped. Characters that YAML refuses without an escape stay escaped
(https://yaml.org/spec/1.2.2/#51-character-set).
"""

from __future__ import annotations

import json
import re
from typing import Any

CONTENT_TYPE = "application/apply-patch+yaml; charset=utf-8"
"""With the character set, the client sends the text unchanged; without it, the client would encode it as JSON again."""

_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def apply_text(manifest: Any) -> str:
    """Return a manifest as text that is valid JSON and valid YAML."""
    return _NOT_PRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(manifest, ensure_ascii=False, allow_nan=False)
    )
