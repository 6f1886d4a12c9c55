"""The accounts of a namespace's ResourceQuotas: what is limited, and for the pods of which PriorityClasses.

An account is a text that messages show. It is the name of a resource if all engine pods count. Otherwise it names the
classes, too: ``pods of PriorityClass In high``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

PRIORITY_CLASS = "PriorityClass"
"""The scope of a quota that depends on the pods' PriorityClass."""

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"

_OF = f" of {PRIORITY_CLASS} "
_AND = f" and {PRIORITY_CLASS} "


def account_of(resource: str, terms: Iterable[tuple[str, tuple[str, ...]]] = ()) -> str:
    """Return the account of a resource for the pods that all these terms match.

    Each term is an operator with the names of its PriorityClasses.
    """
    written = sorted({f"{operator} {','.join(sorted(set(names)))}".rstrip() for operator, names in terms})
    return resource + (_OF + _AND.join(written) if written else "")


def spot_account(name: str) -> str:
    """Return the account of a deployment's own limit: its replicas on spot nodes. No ResourceQuota has such a name."""
    return f"replicas of {name} on spot nodes"


def resource_in(account: str) -> str:
    """Return the resource that an account limits."""
    return account.partition(_OF)[0]


@lru_cache(maxsize=4096)
def is_counted(account: str, priority_class: str) -> bool:
    """Whether a pod counts on an account. ``priority_class`` is empty if the pod has none.

    Source: ``podMatchesScopeFunc`` and ``podMatchesSelector`` in ``pkg/quota/v1/evaluator/core/pods.go`` of Kubernetes.
    A pod without a class matches ``NotIn`` and ``DoesNotExist``.
    """
    _, _, terms = account.partition(_OF)
    return all(_matches(term, priority_class) for term in terms.split(_AND)) if terms else True


def _matches(term: str, priority_class: str) -> bool:
    operator, _, names = term.partition(" ")
    if operator == EXISTS:
        return bool(priority_class)
    if operator == DOES_NOT_EXIST:
        return not priority_class
    is_named = bool(priority_class) and priority_class in names.split(",")
    return is_named == (operator == IN)
