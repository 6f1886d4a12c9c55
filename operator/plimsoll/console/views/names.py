"""Names of objects as Kubernetes allows them: nothing else may become a part of a request's path."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_name(text: str) -> bool:
    """Whether a text is the name of an object or a namespace (DNS subdomain, RFC 1123)."""
    return _NAME.fullmatch(text) is not None
