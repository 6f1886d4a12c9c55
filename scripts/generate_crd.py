#!/usr/bin/env python3
"""Write the CustomResourceDefinitions from the models, plain and as templates of the chart, and what is made of them.

    python -m scripts.generate_crd           # write all files
    python -m scripts.generate_crd --check   # write nothing; exit 1 where a file is not what the models say

The chart carries the CRDs as templates and not in ``crds/``, because Helm never upgrades what is in ``crds/``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from plimsoll.api.crd.inbox_schema import approval_crd, proposal_crd
from plimsoll.api.crd.schema import crd
from scripts.api_documents.page import page
from scripts.api_documents.schemas import file_name, schema_text

ROOT = Path(__file__).resolve().parent.parent
PLAIN = ROOT / "crds" / "plimsoll.dev_inferencedeployments.yaml"
TEMPLATES = ROOT / "charts" / "plimsoll" / "templates"
TEMPLATE = TEMPLATES / "crd.yaml"
API_PAGE = ROOT / "docs" / "api.md"
SCHEMAS = ROOT / "schemas"
"""JSON schemas for editors, one a kind."""

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


def plain(definition: dict[str, Any] | None = None) -> str:
    """A CRD as YAML, by default that of InferenceDeployment. Keys are sorted: the order of fields is no part of it."""
    return NOTICE + yaml.safe_dump(definition or crd(), width=110, allow_unicode=True)


def template(definition: dict[str, Any] | None = None) -> str:
    """A CRD as a template of the chart: optional, kept on uninstall if wanted, with the chart's labels."""
    escaped = plain(definition).removeprefix(NOTICE).replace("{{", BRACES)
    return NOTICE + OPENING + escaped.replace("metadata:\n", METADATA, 1) + CLOSING


def files() -> Iterator[tuple[Path, str]]:
    """Yield every file with its text."""
    yield from ((PLAIN, plain()), (TEMPLATE, template()))
    for definition in (proposal_crd(), approval_crd()):
        plural = definition["spec"]["names"]["plural"]
        yield PLAIN.parent / f"plimsoll.dev_{plural}.yaml", plain(definition)
        yield TEMPLATES / f"crd-{plural}.yaml", template(definition)
    every = (crd(), proposal_crd(), approval_crd())
    yield API_PAGE, page(every)
    yield from ((SCHEMAS / file_name(each), schema_text(each)) for each in every)


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` only compare them. Returns the exit status."""
    stale = [path for path, text in files() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            sys.stderr.write(f"{path.relative_to(ROOT)} is not what the models say: run make crds\n")
        return 1 if stale else 0
    for path, text in files():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
