"""What somebody may do, as the API server's own authorizer says it. ``kubectl auth can-i`` asks the same."""

from __future__ import annotations

from testbed.api_client import ApiClient

_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SUBRESOURCES = frozenset({"status", "scale", "finalizers", "eviction", "token"})
_ACCOUNT = "system:serviceaccount:"


def may(client: ApiClient, user: str, verb: str, resource: str, namespace: str = "") -> bool:
    """Whether a user has a right.

    Args:
        client: of an administrator.
        user: a name; that of a service account stands for its groups too.
        verb: as roles name it.
        resource: ``PLURAL[.GROUP][/NAME]``, or with a subresource in place of the name.
        namespace: where; none for what has none, or in all namespaces.
    """
    kind, _, part = resource.partition("/")
    plural, _, group = kind.partition(".")
    named = {"subresource" if part in _SUBRESOURCES else "name": part} if part else {}
    asked = {"verb": verb, "group": group, "resource": plural, "namespace": namespace, **named}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": _groups_of(user), "resourceAttributes": asked},
    }
    return bool(client.send("POST", _PATH, body)["status"]["allowed"])


def _groups_of(user: str) -> list[str]:
    """The groups that the API server adds to a name."""
    own = user.removeprefix(_ACCOUNT).partition(":")[0] if user.startswith(_ACCOUNT) else ""
    return ["system:authenticated", *(["system:serviceaccounts", f"system:serviceaccounts:{own}"] if own else [])]
