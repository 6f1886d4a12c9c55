"""The calculator's static files.

A build holds the page, a worker, Pyodide, ``core.zip`` (the core, the catalogue, Jinja2) and ``checks.zip`` (pydantic,
for questions that only a manifest's checks can answer). ``files.json`` lists all files with their digests. Nothing in
it names another server.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from calculator import pyodide_package
from calculator.modules import package_files
from calculator.pyodide_package import NotFetched
from plimsoll import __version__
from plimsoll.console.alone import page
from plimsoll.console.rendering import environment
from testbed.cache import cache_directory

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "operator"
SITE = Path(__file__).parent / "site"
WHEELS = Path(__file__).parent / "wheels.txt"
STATIC = PACKAGE / "plimsoll" / "console" / "static"

ALWAYS = ("jinja2", "markupsafe")
"""Wheels that every question needs. The others come when a question needs pydantic."""

PLATFORMS = ("pyemscripten_2026_0_wasm32", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
"""Pyodide's, and one whose wheel of MarkupSafe has its Python part; its compiled part is left out."""

PYTHON = "3.14"
"""Pyodide's Python."""

_COMPILED_ELSEWHERE = ("linux-gnu.so", ".c", ".pyi")
_PATTERNS = "{% import 'macros/bar.html' as bars %}{{ bars.patterns() }}"
"""The pattern of each hatching, once for the whole page."""
_MOMENT = (1980, 1, 1, 0, 0, 0)
"""The date of every entry: the same sources give the same bytes."""


def build(folder: Path) -> dict[str, str]:
    """Write all files, and return their digests. Raises :class:`NotFetched`."""
    contents = {**pyodide_package.files(), **site_files(), **archives(wheels())}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())}
    contents["files.json"] = f"{json.dumps(digests, indent=2)}\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return digests


def site_files() -> dict[str, bytes]:
    """Return the page with its empty form, its scripts, and the console's look."""
    shared = {name: (STATIC / name).read_bytes() for name in ("console.css", "mark.svg")}
    own = {name: (SITE / name).read_bytes() for name in ("page.js", "worker.js")}
    return {"index.html": index().encode(), **own, **shared}


def index() -> str:
    """Return the page. Its form is there before Python is loaded."""
    parts = {
        "patterns": environment().from_string(_PATTERNS).render(),
        "form": page(""),
        "release": f"Plimsoll {__version__}",
    }
    text = (SITE / "index.html").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def archives(found: Iterable[Path]) -> dict[str, bytes]:
    """Return the two archives of Python files. ``found`` are the wheels."""
    core = {name: path.read_bytes() for name, path in package_files(PACKAGE).items()}
    checks: dict[str, bytes] = {}
    for wheel in sorted(found):
        (core if wheel.name.startswith(ALWAYS) else checks).update(_members(wheel))
    return {"core.zip": archive(core), "checks.zip": archive(checks)}


def _members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archived:
        names = [each for each in archived.namelist() if not each.endswith(("/", *_COMPILED_ELSEWHERE))]
        return {name: archived.read(name) for name in names}


def archive(contents: Mapping[str, bytes]) -> bytes:
    """Return a zip archive whose bytes depend on its contents alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archived:
        for name, content in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archived.writestr(entry, content)
    return buffer.getvalue()


def wheels() -> list[Path]:
    """Return the pinned wheels, from the cache or from the index that pip is configured for.

    Raises:
        NotFetched: pip cannot get them.
    """
    digest = hashlib.sha256(WHEELS.read_bytes()).hexdigest()[:12]
    folder = cache_directory() / f"calculator-wheels-{digest}"
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        _download(part)
        part.replace(folder)
    return sorted(folder.glob("*.whl"))


def _download(folder: Path) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    asked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--python-version", PYTHON]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *asked, "--implementation", "cp", *platforms]
    done = subprocess.run(  # noqa: S603 - our own arguments
        [*command, "-r", str(WHEELS), "-d", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotFetched(f"pip cannot get the wheels of {WHEELS.name}: {done.stderr.strip()}")
