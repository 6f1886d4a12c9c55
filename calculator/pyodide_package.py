"""Pyodide's files from its npm package, without npm: one download, checked by its digest and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from testbed.cache import cache_directory

VERSION = "314.0.7"
SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
FILES = ("pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide.mjs", "pyodide-lock.json", "python_stdlib.zip")
"""All that a browser needs of the package. The lock is the list of further packages; none of them is loaded."""

_SECONDS = 60
_VARIABLES = ("NPM_CONFIG_REGISTRY", "npm_config_registry")


class NotFetched(RuntimeError):
    """A file of the static calculator could not be had; the message says what to do."""


def tarball() -> Path:
    """Return the package, from the cache or from the registry that npm is configured for.

    Raises:
        NotFetched: no registry is configured, it does not answer, or it has another file.
    """
    kept = cache_directory() / f"pyodide-{VERSION}.tgz"
    if not kept.is_file():
        content = _fetched(f"{registry().rstrip('/')}/pyodide/-/pyodide-{VERSION}.tgz")
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_bytes(checked(content))
        part.replace(kept)
    return kept


def files() -> Mapping[str, bytes]:
    """Return :data:`FILES` with their content. Raises :class:`NotFetched`."""
    path = tarball()
    checked(path.read_bytes())
    with tarfile.open(path) as package:
        return {name: _member(package, name) for name in FILES}


def checked(content: bytes) -> bytes:
    """Return the package's content if it is the one that was pinned. Raises :class:`NotFetched`."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise NotFetched(f"pyodide {VERSION} has the sha256 {digest}, not {SHA256}: it is another file. Remove it.")
    return content


def registry() -> str:
    """Return the address of the registry that npm is configured for, as npm looks for it.

    No address is written here: where npm and its files are missing, the person names the registry.

    Raises:
        NotFetched: none is configured.
    """
    found = next(_configured(os.environ, Path.home() / ".npmrc"), "")
    if not found.startswith(("https://", "http://")):
        raise NotFetched(
            "No npm registry is configured. Set NPM_CONFIG_REGISTRY to the address of one, or install npm."
        )
    return found


def _configured(environment: Mapping[str, str], settings: Path) -> Iterator[str]:
    yield from (environment[name] for name in _VARIABLES if environment.get(name))
    yield from _registries(settings)
    npm = shutil.which("npm")
    if npm is not None:
        done = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, check=False)  # noqa: S603
        yield done.stdout.strip()


def _registries(settings: Path) -> Iterator[str]:
    lines = settings.read_text("utf-8").splitlines() if settings.is_file() else []
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "registry":
            yield value.strip()


def _fetched(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310 - registry() takes http(s) alone
            content: bytes = answer.read()
    except OSError as error:
        raise NotFetched(f"{address} cannot be read: {error}. Check the network and NPM_CONFIG_REGISTRY.") from error
    return content


def _member(package: tarfile.TarFile, name: str) -> bytes:
    file = package.extractfile(f"package/{name}")
    if file is None:
        raise NotFetched(f"pyodide {VERSION} has no file {name}.")
    return file.read()
