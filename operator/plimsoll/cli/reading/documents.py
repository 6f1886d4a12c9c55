"""Manifests and fleets from YAML or JSON: every object with its place in the file.

The option ``-n``: the namespace of objects that name none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.crd.rules import check_rules
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.cli.reading.files import files_of, read_text, title
from plimsoll.cli.reading.shapes import refuse_misshapen
from plimsoll.cli.reading.yaml_documents import Broken, read_documents
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.kubernetes_names import API_VERSION, KIND, ObjectKey

Body = dict[str, Any]


KUBECTL = "kubectl get nodes,pods,resourcequotas,limitranges,priorityclasses -A -o yaml"
"""The command that writes a file of a fleet."""

_KINDS = (
    *("Node", "Pod", "PriorityClass", "ResourceQuota", "ResourceSlice", "ResourceClaim"),
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "LimitRange"),
)

FleetObjects = Mapping[str, Sequence[Mapping[str, Any]]]
"""The objects of a fleet file that a plan reads, by kind. Every kind is there."""


class UnusableDocument(PlimsollError):
    """A document of a file cannot be used; the message begins with its place."""


@dataclass(frozen=True, slots=True)
class Located:
    """An object and its place: the file, the document's number, the number in a List."""

    place: str
    body: Body

    @property
    def title(self) -> str:
        """Kind, namespace and name, as far as they are written."""
        metadata = self.body.get("metadata")
        head = metadata if isinstance(metadata, dict) else {}
        names = [part for part in (head.get("namespace"), head.get("name")) if isinstance(part, str)]
        return " ".join([str(self.body.get("kind")), "/".join(names)]).strip()

    @property
    def where(self) -> str:
        """Place and title: the start of a message."""
        return f"{self.place}, {self.title}"


class Sourced(Protocol):
    """An object, and the beginning of messages about it."""

    @property
    def where(self) -> str:
        """Its place in the user's files."""

    @property
    def body(self) -> Mapping[str, Any]:
        """The object."""


@dataclass(slots=True)
class Manifests:
    """The content of files: the InferenceDeployments in order, the skipped objects of other kinds, the problems."""

    found: list[Located] = field(default_factory=list)
    passed_over: list[Located] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self) -> str | None:
        """A note on the skipped objects."""
        if not self.passed_over:
            return None
        kinds = Counter(str(each.body.get("kind", "without a kind")) for each in self.passed_over)
        listed = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
        return f"only {KIND}s are planned; passed over: {listed} (the first: {self.passed_over[0].where})."


def read_manifests(names: Sequence[str], *, recursive: bool = False) -> Manifests:
    """Read everything that ``-f`` names: files, folders, standard input. Raises nothing: each problem is kept."""
    manifests = Manifests()
    for name in _files(names, manifests.problems, recursive=recursive):
        try:
            entries = list(_entries(name))
        except PlimsollError as error:
            manifests.problems.append(str(error))
            continue
        for entry in entries:
            if isinstance(entry, UnusableDocument):
                manifests.problems.append(str(entry))
            elif _is_ours(entry.body):
                manifests.found.append(entry)
            else:
                manifests.passed_over.append(entry)
    return manifests


def _files(names: Sequence[str], problems: list[str], *, recursive: bool) -> list[str]:
    """The files in order, each once: a folder and a file in it may both be named."""
    files: dict[str, str] = {}
    for name in names:
        try:
            for each in files_of(name, recursive=recursive):
                files.setdefault(str(Path(each).resolve()), each)
        except PlimsollError as error:
            problems.append(str(error))
    return list(files.values())


def _is_ours(body: Body) -> bool:
    """Whether an object is meant for us. Our group has one kind, so any other kind in it is a typing mistake."""
    group = API_VERSION.partition("/")[0]
    return body.get("kind") == KIND or str(body.get("apiVersion")).startswith(f"{group}/")


def no_deployment(paths: Sequence[str]) -> InvalidInput:
    """The error for files without an InferenceDeployment."""
    return InvalidInput("-f", ", ".join(title(path) for path in paths), f"Name a file with at least one {KIND}.")


def parse_located(each: Sourced) -> InferenceDeployment:
    """Parse one object. Raises :class:`UnusableDocument` with its place."""
    try:
        return parse_inference_deployment(each.body, {gpu.name for gpu in load_gpu_types()})
    except PlimsollError as error:
        raise UnusableDocument(f"{each.where}: {error}") from error


def namesakes(places: Mapping[ObjectKey, Sequence[str]]) -> Iterator[str]:
    """Yield a complaint for each name that stands in several places: it is not known which object is meant."""
    for key, where in places.items():
        if len(where) > 1:
            twice = InvalidInput("metadata.name", str(key), "Give every InferenceDeployment a name of its own.")
            yield f"{where[-1]}: {twice} It is also the name of {', '.join(where[:-1])}."


def check_located(each: Sourced) -> None:
    """Check one object that was parsed by the rules of the API server. Raises :class:`UnusableDocument`."""
    try:
        check_rules(each.body)
    except PlimsollError as error:
        raise UnusableDocument(f"{each.where}: {error}") from error


def load_fleet_objects(path: str) -> FleetObjects:
    """Return the objects of a file that a plan reads, as :data:`KUBECTL` writes it.

    Raises:
        InvalidInput: the file cannot be read, or holds no Node.
        UnusableDocument: it holds a document that is no object, or an object that no API server would return.
    """
    objects = list(_located(path))
    for each in objects:
        try:
            refuse_misshapen(each.body)
        except PlimsollError as error:
            raise UnusableDocument(f"{each.place}, {error}") from error
    nodes = [each for each in objects if each.body.get("kind") == "Node"]
    if not nodes:
        raise InvalidInput("--fleet", title(path), f"Name a file with Nodes: {KUBECTL} > fleet.yaml")
    _refuse_twins(nodes)
    return {kind: [each.body for each in objects if each.body.get("kind") == kind] for kind in _KINDS}


def _refuse_twins(nodes: Sequence[Located]) -> None:
    """Refuse two nodes with the same name. They are one node written twice, and its GPUs would count twice."""
    seen: dict[str, Located] = {}
    for node in nodes:
        first = seen.setdefault(node.body["metadata"]["name"], node)
        if first is not node:
            raise UnusableDocument(f"{node.where}: {first.place} holds it already. Write every node once.")


def _located(path: str) -> Iterator[Located]:
    for entry in _entries(path):
        if isinstance(entry, UnusableDocument):
            raise entry
        yield entry


def _entries(name: str) -> Iterator[Located | UnusableDocument]:
    """Yield the objects of a file, Lists expanded, and errors. Raises :class:`InvalidInput` if it is unreadable."""
    for document in read_documents(read_text(name), is_json=name.endswith(".json")):
        place = f"{title(name)}, document {document.number}"
        if isinstance(document, Broken):
            yield UnusableDocument(f"{place}: {document.why}")
            continue
        listed = _items(document.value)
        for number, item in enumerate([document.value] if listed is None else listed, start=1):
            here = place if listed is None else f"{place}, item {number}"
            if isinstance(item, dict):
                yield Located(here, item)
            else:
                yield UnusableDocument(f"{here}: Write Kubernetes objects: a mapping with apiVersion and kind.")


def _items(value: Any) -> list[Any] | None:
    if not isinstance(value, dict) or not str(value.get("kind", "")).endswith("List"):
        return None
    items = value.get("items")
    return items if isinstance(items, list) else None


def in_namespace(each: Located, namespace: str) -> Located:
    """Return an object with a namespace: its own, or this one if it names none."""
    metadata = each.body.get("metadata")
    if not isinstance(metadata, dict):
        return each
    return Located(each.place, {**each.body, "metadata": {"namespace": namespace, **metadata}})


def refuse_namespace_of_nothing(namespace: str | None, files: Sequence[str]) -> None:
    """Raise :class:`InvalidInput` for ``-n`` without files: it selects nothing of a cluster or a snapshot."""
    if namespace is not None and not files:
        fix = "It is for objects of -f that name no namespace, and selects nothing else: leave it out, or name files."
        raise InvalidInput("-n", namespace, fix)


def namespace_note(namespace: str | None, found: Sequence[Located]) -> str | None:
    """Return a note if ``-n`` has no effect, because every object names another namespace itself."""
    return no_effect_note(namespace, {_own(each) for each in found})


def no_effect_note(namespace: str | None, own: Collection[str]) -> str | None:
    """Return the note if objects have these namespaces (empty for one that names none) and not that of ``-n``."""
    if namespace is None or not own or "" in own or namespace in own:
        return None
    return f"-n {namespace} has no effect: every object of -f names its namespace ({', '.join(sorted(own))})."


def _own(each: Located) -> str:
    metadata = each.body.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""
