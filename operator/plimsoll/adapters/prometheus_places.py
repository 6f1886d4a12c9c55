"""The labels under which Prometheus has a pod's namespace and name, and which of them are believed.

Prometheus gives each series the labels of the target that it scraped. All other labels are the page's own, and a page
may name anybody's pod: as ``exported_pod`` where Prometheus had to rename it, or as ``pod`` where targets have other
labels. So a series whose labels name another namespace as well is not believed: one of the two is that of its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

LabelPair = tuple[str, str]
"""The label of a pod's namespace and that of its name."""

LABEL_PAIRS: tuple[LabelPair, ...] = (
    ("namespace", "pod"),
    ("exported_namespace", "exported_pod"),
    ("kubernetes_namespace", "kubernetes_pod_name"),
)
"""Labels of a pod's name, in the order in which they are tried: those of the Prometheus operator's monitors, the page's
own where Prometheus had to rename them, and those of the widespread example for annotated pods."""


def places_of(namespace: str, pairs: Sequence[LabelPair]) -> Iterator[tuple[str, str]]:
    """Yield the matchers of a namespace under each pair of labels, and the pair's label of the pod's name."""
    for pair in pairs:
        agreeing = (f'{other}=~"|{namespace}"' for other in other_namespaces(pair, pairs))
        yield ",".join((f'{pair[0]}="{namespace}"', *agreeing)), pair[1]


def other_namespaces(pair: LabelPair, pairs: Iterable[LabelPair]) -> list[str]:
    """Return the labels in which a series under one pair may name a second namespace."""
    return sorted({each[0] for each in pairs} - {pair[0]})


def is_believed(labels: Mapping[str, str], pair: LabelPair, pairs: Iterable[LabelPair]) -> bool:
    """Whether no label of a series names another namespace than the one that it has under ``pair``."""
    return all(labels.get(other, "") in ("", labels.get(pair[0])) for other in other_namespaces(pair, pairs))
