#!/usr/bin/env python3
"""Write the CustomResourceDefinition from the models: once plain, once as a template of the chart.

    python scripts/generate_crd.py           # write both files
    python scripts/generate_crd.py --check   # write nothing; exit 1 where a file is not what the models say

The chart carries the CRD as a template and not in ``crds/``, because Helm never upgrades what is in ``crds/``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from plimsoll.api.schema import crd

ROOT = Path(__file__).resolve().parent.parent
PLAIN = ROOT / "crds" / "plimsoll.dev_inferencedeployments.yaml"
TEMPLATE = ROOT / "charts" / "plimsoll" / "templates" / "crd.yaml"

NOTICE = "# Generated from operator/plimsoll/api by scripts/generate_crd.py; change the models, not this file.\n"
OPENING = "{{- if .Values.crds.install }}\n"
CLOSING = "{{- end }}\n"
METADATA = """metadata:
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
  labels:
    {{- include "plimsoll.labels" . | nindent 4 }}
"""
BRACES = '{{ "{{" }}'
"""Two opening braces, for Helm: anywhere in the schema they would start an action of the template."""


def plain() -> str:
    """The CRD as YAML. Keys are sorted: the order of the models' fields is no part of it."""
    return NOTICE + yaml.safe_dump(crd(), width=110, allow_unicode=True)


def template() -> str:
    """The CRD as a template of the chart: optional, kept on uninstall if wanted, with the chart's labels."""
    escaped = plain().removeprefix(NOTICE).replace("{{", BRACES)
    return NOTICE + OPENING + escaped.replace("metadata:\n", METADATA, 1) + CLOSING


def main(arguments: list[str]) -> int:
    """Write the two files, or with ``--check`` only compare them. Returns the exit status."""
    stale = [
        path
        for path, text in ((PLAIN, plain()), (TEMPLATE, template()))
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in arguments:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what the models say: run scripts/generate_crd.py\n")
        return 1 if stale else 0
    for path, text in ((PLAIN, plain()), (TEMPLATE, template())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
