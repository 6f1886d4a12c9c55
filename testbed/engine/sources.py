"""Has anything changed since the real engine was asked: its folder, the renderer, the testbed's engine, the release?

Beside the recorded answers of a release lies a list of these files, each with the digest of what it holds. A full run
of ``make test-engine`` that passes writes it. As long as the files are those of the list, the recorded answers say what
the engine would, and it need not run. ``sha256sum --check`` reads the list, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from testbed.engine.environment import VLLM_VERSION

ROOT: Final = Path(__file__).resolve().parents[2]

SOURCES: Final = ("operator/plimsoll/engines/vllm", "operator/plimsoll/render", "testbed/engine", "tests/engine")
"""Folders whose files are listed. The release and all that it is installed with stand in ``testbed/engine``, the
recorded answers in ``tests/engine``. What else a rendered command comes from is in the recorded questions: another
command is a question that has no answer, and a replayed test fails."""

LIST: Final = f"tests/engine/recorded/vllm-{VLLM_VERSION}/sources.sha256"


def digests(root: Path) -> dict[str, str]:
    """The digest of every listed file, by its path in the checkout ``root``."""
    files = sorted(
        file.relative_to(root).as_posix()
        for folder in SOURCES
        for file in (root / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.name != Path(LIST).name
    )
    return {path: hashlib.sha256((root / path).read_bytes()).hexdigest() for path in files}


def written(root: Path) -> tuple[str, dict[str, str]]:
    """The first line of the list in the checkout ``root``, and its digests by path; both empty where there is none."""
    file = root / LIST
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [line.partition("  ") for line in lines if not line.startswith("#")]
    return "".join(lines[:1]), {path: digest for digest, _, path in rows}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """A line for each file that is new, gone or not as it was."""
    paths = sorted({*before, *now})
    words = {path: "new" if path not in before else "gone" if path not in now else "changed" for path in paths}
    return [f"{words[path]}: {path}" for path in paths if before.get(path) != now.get(path)]


def one_digest(found: Mapping[str, str]) -> str:
    """One short digest of all."""
    rows = "".join(f"{digest}  {path}\n" for path, digest in sorted(found.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:12]


def check(root: Path) -> bool:
    """Say whether anything has changed since the list was written, and what."""
    (title, before), now = written(root), digests(root)
    if not before:
        print(f"Nothing says that vLLM {VLLM_VERSION} was ever asked: there is no {LIST}.")
        return False
    changed = changes(before, now)
    if changed:
        print(f"{title}\nSince then:")
        print("\n".join(f"  {line}" for line in changed))
        return False
    print(f"{title}\nNothing of it has changed since then (digest {one_digest(now)}): the recorded answers hold.")
    return True


def write(root: Path) -> bool:
    """Write the list anew where anything has changed; whether it did."""
    (_, before), now = written(root), digests(root)
    if before == now:
        print(f"{LIST} is up to date (digest {one_digest(now)}).")
        return False
    title = f"# A real vLLM {VLLM_VERSION} was asked on {datetime.now(UTC):%Y-%m-%d}, with digest {one_digest(now)}."
    rows = [f"{digest}  {path}" for path, digest in now.items()]
    (root / LIST).parent.mkdir(parents=True, exist_ok=True)
    (root / LIST).write_text("\n".join([title, *rows]) + "\n", encoding="utf-8")
    print(f"{LIST} is new (digest {one_digest(now)}).\nCommit it with your change: CI then need not ask again.")
    return True
