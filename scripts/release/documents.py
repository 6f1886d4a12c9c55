"""The documents of a release: what is in it, what it was made of, what changed, and the digest of every file."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from scripts.release.sources import NotReleasable, Sources

SUMS = "SHA256SUMS"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill_of_materials(sources: Sources, wheel: Path, target: Path) -> Path:
    """Write what the image and the extra ``console`` hold, as CycloneDX: the packages of the lock, with digests.

    A package has the digests of its files for all platforms of the lock. What the image's base brings is in no lock: a
    scan of the image lists it (docs/release.md).
    """
    own = Component(
        name="plimsoll",
        version=sources.version,
        type=ComponentType.APPLICATION,
        bom_ref=f"pkg:pypi/plimsoll@{sources.version}",
        purl=PackageURL("pypi", None, "plimsoll", sources.version),
        hashes=[_hash(digest(wheel))],
        licenses=[LicenseExpression("Apache-2.0")],
    )
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{sources.addresses.repository}@{sources.commit}"))
    bom.metadata.timestamp = datetime.fromtimestamp(sources.moment, UTC)
    bom.metadata.component = own
    parts = list(_locked((sources.folder / "constraints.hashes.txt").read_text(encoding="utf-8")))
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(own, parts)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    return _written(target / f"plimsoll-{sources.version}.cdx.json", f"{text}\n")


def _locked(lock: str) -> Iterator[Component]:
    for line in lock.replace("\\\n", " ").splitlines():
        if line and not line.startswith("#"):
            pin, *hashes = line.split()
            name, version = pin.split("==")
            purl = PackageURL("pypi", None, re.sub(r"[-_.]+", "-", name).lower(), version)
            found = [_hash(each.removeprefix("--hash=sha256:")) for each in hashes]
            yield Component(name=name, version=version, purl=purl, bom_ref=purl.to_string(), hashes=found)


def _hash(sha256: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=sha256)


def provenance(sources: Sources, artifacts: Iterable[Path], target: Path) -> Path:
    """Write which commit and which locks the files were made of, as an in-toto statement with SLSA's predicate.

    It is not signed, and proves nothing before whoever builds has signed it.
    """
    repository = sources.addresses.repository
    locks = ("constraints.build.hashes.txt", "constraints.hashes.txt", "constraints.txt")
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": digest(each)}} for each in sorted(artifacts)],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{repository}/blob/main/docs/release.md",
                "externalParameters": {"repository": repository, "registry": sources.addresses.registry},
                "internalParameters": {"SOURCE_DATE_EPOCH": sources.moment},
                "resolvedDependencies": [
                    {"uri": f"git+{repository}@{sources.commit}", "digest": {"gitCommit": sources.commit}},
                    *({"name": name, "digest": {"sha256": digest(sources.folder / name)}} for name in locks),
                ],
            },
            "runDetails": {"builder": {"id": f"{repository}/tree/main/scripts/release"}},
        },
    }
    return _written(target / f"plimsoll-{sources.version}.intoto.json", json.dumps(statement, indent=1) + "\n")


def krew_manifest(sources: Sources, archive: Path, target: Path) -> Path:
    """Write the plugin's manifest for krew, from its template."""
    template = (sources.folder / "plugin" / "krew.yaml").read_text(encoding="utf-8")
    facts = {"VERSION": sources.version, "ARCHIVE": archive.name, "SHA256": digest(archive)}
    return _written(target / "plimsoll.yaml", _filled(template, facts))


def _filled(template: str, facts: Mapping[str, str]) -> str:
    for name, value in facts.items():
        template = template.replace(f"${{{name}}}", value)
    return template


def notes(sources: Sources, artifacts: Iterable[Path], target: Path) -> Path:
    """Write the release notes: the version's part of the changelog, and the digests.

    Raises:
        NotReleasable: the changelog has no part for the version.
    """
    changelog = (sources.folder / "CHANGELOG.md").read_text(encoding="utf-8")
    version = re.escape(sources.version)
    part = re.search(rf"^## {version}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if part is None:
        raise NotReleasable(f"CHANGELOG.md has no part '## {sources.version}': write what this version changes.")
    links = re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", rf"]({sources.addresses.repository}/blob/main/\1)", part[1].strip())
    sums = "\n".join(f"{digest(each)}  {each.name}" for each in sorted(artifacts))
    head = f"# Plimsoll {sources.version}\n\nMade of commit `{sources.commit}`.\n\n"
    return _written(target / "RELEASE_NOTES.md", f"{head}{links}\n\n## Digests\n\n```\n{sums}\n```\n")


def checksums(artifacts: Iterable[Path], target: Path) -> Path:
    """Write the SHA-256 of every file, as ``sha256sum --check`` reads it."""
    return _written(target / SUMS, "".join(f"{digest(each)}  {each.name}\n" for each in sorted(artifacts)))


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
