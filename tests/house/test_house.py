"""What holds for the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml

import plimsoll
from scripts.lock_hashes import requirements_of

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = [
    line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")
]


def tracked() -> list[Path]:
    """Files under version control, or that would be: not ignored. Skips what is deleted and not yet committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git of the checkout
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


FILES = tracked()


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def canonical(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_folder_of_the_package_is_no_package_itself() -> None:
    """``operator`` is a module of Python's: a package of that name would hide it from everybody."""
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert [path for path in FILES if "tests" in path.relative_to(ROOT).parts and path.parent.name == "operator"] == []


def test_the_layers_point_inward_and_the_core_does_no_io() -> None:
    """The import contracts of pyproject.toml, by the linter itself."""
    program = (
        "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(config_filename='pyproject.toml'))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 broken" in ran.stdout


def test_one_version_everywhere() -> None:
    chart = yaml.safe_load(text(ROOT / "charts" / "plimsoll" / "Chart.yaml"))
    assert chart["appVersion"] == plimsoll.__version__ == distribution("plimsoll").version


def test_constraints_are_exact_versions_and_nothing_else() -> None:
    assert [line for line in CONSTRAINTS if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+", line)] == []


@pytest.mark.parametrize("wanted", requirements_of(PYPROJECT["project"]))
def test_every_dependency_and_all_that_it_needs_are_pinned(wanted: str) -> None:
    pinned = {canonical(line.split("==")[0]) for line in CONSTRAINTS}
    assert needed(wanted) - pinned == set()


def test_the_package_alone_installs_nothing_of_an_extra() -> None:
    alone = set().union(*(needed(each) for each in PYPROJECT["project"]["dependencies"]))
    extras = set().union(*PYPROJECT["project"]["optional-dependencies"].values())
    of_extras = {canonical(re.split(r"[\s\[<>=!~;(]", each, maxsplit=1)[0]) for each in extras} - {"plimsoll"}
    assert {"click", "pydantic", "pydantic-core", "pyyaml", "rich"} <= alone
    assert {"httpx2", "kopf", "kubernetes", "prometheus-client"} <= of_extras
    assert alone & (of_extras | {"aiohttp"}) == set()


def needed(requirement: str, seen: frozenset[str] = frozenset()) -> set[str]:
    """The distribution of a requirement and everything it needs that is installed here, by canonical name."""
    name = canonical(re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0])
    found = {name}
    for inner in distribution(name).requires or ():
        if "extra ==" in inner:
            continue
        child = canonical(re.split(r"[\s\[<>=!~;(]", inner, maxsplit=1)[0])
        if child not in seen | found and _is_installed(child):
            found |= needed(inner, seen | found)
    return found


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except ImportError:
        return False
    return True


HOSTS_AND_PATHS = re.compile(
    r"(?:https?://|//)(?:pypi\.|[\w.-]*\bproxy\b|[\w.-]*artifactory|[\w.-]*nexus)[\w./-]*"
    r"|index-url|extra-index-url|(?<![\w.])/home/[a-z]\w*|(?<![\w.])/Users/\w+",
    re.IGNORECASE,
)
"""Package registries, proxies and home folders: where something was built is nobody's business, and never portable."""

ABOUT_THE_RULE = {"tests/house/test_house.py"}


def test_no_file_tells_where_it_was_made() -> None:
    told = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in FILES
        if str(path.relative_to(ROOT)) not in ABOUT_THE_RULE
        for found in HOSTS_AND_PATHS.finditer(text(path))
        if ".example" not in found[0]  # reserved for documentation (RFC 2606)
    ]
    assert told == []


def test_the_rule_would_see_such_places() -> None:
    for trace in ("https://pypi.example/simple", "--index-url x", "//proxy.example.net/npm", "/home/me/x", "/Users/Me"):
        assert HOSTS_AND_PATHS.search(trace), trace
    for harmless in ("/cache/home", "https://docs.vllm.ai", "plimsoll.dev/home", "{CACHE_PATH}/home"):
        assert not HOSTS_AND_PATHS.search(harmless), harmless


def test_no_file_holds_an_unfinished_thought() -> None:
    unfinished = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")
    sources = [path for path in FILES if path.suffix in (".py", ".md", ".yaml", ".toml", ".sh")]
    assert [str(path.relative_to(ROOT)) for path in sources if unfinished.search(text(path))] == []


MAY_SKIP = {"tests/support/chromium.py", "tests/support/static_calculator.py"}
"""Browser tests, where a platform has no Chromium (in CI that is a failure), or where no registry has Pyodide."""


def test_no_test_is_skipped() -> None:
    skipped = re.compile(r"pytest\.(?:mark\.)?(?:skip|xfail|importor" r"skip)")
    tests = [path for path in FILES if path.suffix == ".py" and "tests" in path.parts]
    assert {str(path.relative_to(ROOT)) for path in tests if skipped.search(text(path))} == MAY_SKIP
