"""The lines of the decision code that were changed lately: those of a branch, or of the last day."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from benchmarks.mutants.areas import SOURCE

MAIN = ("origin/main", "main")
DAY_SECONDS = 86_400
"""On the main branch itself the commits of this time before the newest one count. Several are often pushed together."""

Lines = Mapping[str, frozenset[int]]


def base_of(root: Path) -> str | None:
    """Return the commit to compare with; None where there is none, e.g. in a clone of a single commit.

    It is where the present commit has left the main branch. For a commit of the main branch without uncommitted changes
    it is the newest commit that is a day older, or else the oldest that the clone has.
    """
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    found = (_git(root, "merge-base", "HEAD", name).strip() for name in MAIN)
    left = next(filter(None, found), head)
    if left != head or _git(root, "status", "--porcelain", "--", SOURCE):
        return left or None
    commits = [line.split() for line in _git(root, "log", "--first-parent", "--format=%H %ct").splitlines()]
    earlier = [name for name, at in commits if int(at) <= int(commits[0][1]) - DAY_SECONDS]
    base = earlier[0] if earlier else commits[-1][0] if commits else head
    return None if base == head else base


def changed_since(root: Path, base: str) -> Lines:
    """Return the lines that differ from a commit, by file. Changes that are not committed count, and new files too."""
    found: dict[str, set[int]] = {}
    path = ""
    for line in _git(root, "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", SOURCE).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if hunk:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(path, set()).update(range(first, first + count))
    for new in _git(root, "ls-files", "--others", "--exclude-standard", "--", SOURCE).splitlines():
        found[new] = set(range(1, 1 + (root / new).read_bytes().count(b"\n")))
    return {name: frozenset(lines) for name, lines in found.items() if lines}


def seed_of(lines: Lines) -> int:
    """Return a seed that depends on the changed lines alone: whoever runs the gate on them tries the same mutants."""
    listed = sorted((name, sorted(numbers)) for name, numbers in lines.items())
    return int(sha256(repr(listed).encode()).hexdigest()[:8], 16)


def _git(root: Path, *arguments: str) -> str:
    """Return what git says; nothing where it fails: no repository, or no such name."""
    done = subprocess.run(["git", *arguments], cwd=root, check=False, capture_output=True, text=True)  # noqa: S603, S607
    return done.stdout if done.returncode == 0 else ""
