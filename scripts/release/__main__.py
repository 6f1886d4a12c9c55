#!/usr/bin/env python3
"""Make a release up to the point of pushing it: docs/release.md.

    python -m scripts.release --repository https://git.example/plimsoll --registry registry.example

Into ``build/release``: wheel, source distribution, chart, what the image is built from, the kubectl plugin with krew's
manifest, the CRDs, a bill of materials, a provenance statement, release notes and checksums. Twice the same commit and
addresses give twice the same bytes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.release import archives, documents
from scripts.release.sources import NO_ID, REGISTRY, REPOSITORY, Addresses, NotReleasable, copied, uncommitted

ROOT = Path(__file__).resolve().parents[2]


def release(root: Path, target: Path, addresses: Addresses) -> list[Path]:
    """Make all files of a release in an empty folder, and return them. Raises :class:`NotReleasable`."""
    with tempfile.TemporaryDirectory() as scratch:
        sources = copied(root, Path(scratch), addresses)
        source_distribution, wheel = archives.packages(sources, target)
        plugin = archives.plugin(sources, wheel, target)
        artifacts = [source_distribution, wheel, plugin]
        artifacts += [archives.chart(sources, target), archives.image_context(sources, target)]
        artifacts += [_crds(sources.folder, target, sources.version), _artifact_hub(sources.folder, target)]
        artifacts += [documents.krew_manifest(sources, plugin, target)]
        artifacts += [documents.bill_of_materials(sources, wheel, target)]
        artifacts += [documents.provenance(sources, tuple(artifacts), target)]
        artifacts += [documents.notes(sources, tuple(artifacts), target)]
        return [*artifacts, documents.checksums(artifacts, target)]


def _crds(folder: Path, target: Path, version: str) -> Path:
    """All CRDs in one file, for ``kubectl apply``."""
    path = target / f"plimsoll-crds-{version}.yaml"
    path.write_text("---\n".join(each.read_text("utf-8") for each in sorted((folder / "crds").glob("*.yaml"))), "utf-8")
    return path


def _artifact_hub(folder: Path, target: Path) -> Path:
    name = "artifacthub-repo.yml"
    return Path(shutil.copyfile(folder / "charts" / name, target / name))


def main(arguments: Sequence[str]) -> int:
    """Make it, and say what is left to do. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.release", description="Make a release, without pushing it."
    )
    parser.add_argument("--repository", default=REPOSITORY, help="address of the sources, for links and downloads")
    parser.add_argument("--registry", default=REGISTRY, help="registry of the image and the chart")
    parser.add_argument("--artifacthub-id", default=NO_ID, help="id that Artifact Hub shows for the chart's repository")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "build" / "release", help="folder; an earlier release in it goes"
    )
    asked = parser.parse_args(arguments)
    if changed := uncommitted(ROOT):
        sys.stderr.write(f"error: not committed: {', '.join(changed[:5])}. A release is made of a commit.\n")
        return 2
    if asked.output.exists() and any(asked.output.iterdir()) and not (asked.output / documents.SUMS).exists():
        sys.stderr.write(f"error: {asked.output} holds other files than a release: name another folder.\n")
        return 2
    shutil.rmtree(asked.output, ignore_errors=True)
    asked.output.mkdir(parents=True)
    try:
        made = release(
            ROOT, asked.output, Addresses(asked.repository.rstrip("/"), asked.registry, asked.artifacthub_id)
        )
    except NotReleasable as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for path in made:
        sys.stdout.write(f"{documents.digest(path)}  {path.relative_to(asked.output)}\n")
    if asked.repository == REPOSITORY or asked.registry == REGISTRY:
        sys.stderr.write("note: the addresses are placeholders; give --repository and --registry to publish this.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
