"""The kubeconfig that a process uses, and what to say if there is none that can be used."""

from __future__ import annotations

import os
from pathlib import Path

from kubernetes.aio.config import ConfigException
from yaml import YAMLError

from plimsoll.domain.errors import SourceUnavailable

_USUAL = "~/.kube/config"
_FIX = "Set KUBECONFIG to the kubeconfig of a cluster"


UNREADABLE = (ConfigException, OSError, YAMLError, AttributeError, TypeError)
"""The errors of the client for a file that it cannot use. For one that is empty it fails in its own code."""


class NoCluster(SourceUnavailable):
    """No cluster is named: there is no kubeconfig that can be used, and the process is in no pod."""


def named_files(kubeconfig: str | None) -> tuple[Path, ...]:
    """Return the files that make the kubeconfig; None for those that kubectl would use."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or _USUAL
    return tuple(Path(part).expanduser() for part in named.split(os.pathsep) if part)


def check_exists(kubeconfig: str | None) -> None:
    """Raise :class:`NoCluster` if none of the files is there."""
    files = named_files(kubeconfig)
    if not any(file.exists() for file in files):
        where = " or ".join(map(str, files))
        raise NoCluster(f"No cluster: there is no kubeconfig {where}, and this process is in no pod. {_FIX}.")


def unusable(kubeconfig: str | None, context: str | None, error: Exception) -> NoCluster:
    """Return the error about a kubeconfig that is there and cannot be used."""
    where = " and ".join(map(str, named_files(kubeconfig)))
    which = "" if context is None else f", context {context},"
    why = " ".join(str(error).removeprefix("Invalid kube-config file. ").split()).rstrip(".")
    said = f"the kubeconfig {where}{which} cannot be used ({why})"
    return NoCluster(f"No cluster: {said}. {_FIX}, or name another context.")
