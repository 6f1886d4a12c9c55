"""The static calculator's files: the ones that it needs, the ones that were pinned, and nothing from elsewhere."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from calculator import pyodide_package
from calculator.building import ALWAYS, PACKAGE, ROOT, SITE, WHEELS, archive, archives, index, site_files
from calculator.modules import package_files
from calculator.pyodide_package import NotFetched, checked, registry

ASK = """
import sys
sys.path[:0] = [{folder!r}]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("aiohttp", "click", "pydantic", "rich", "yaml"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Refuse())
import plimsoll
from plimsoll.console.alone import document, page
assert plimsoll.__file__.startswith({folder!r}), plimsoll.__file__
document("?model=Qwen/Qwen3-8B&gpu=l4-24gb&concurrency=64")
assert "Qwen3ForCausalLM" in page("?model=Qwen/Qwen3-8B")
try:
    page("?model=Qwen/Qwen3-8B&lora=4 16")
except ModuleNotFoundError as error:
    print(error.name)
"""


def unpacked(folder: Path) -> None:
    """The package's own files of the archive in a folder."""
    for name, path in package_files(PACKAGE).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(path.read_bytes())


def test_the_archive_answers_without_pydantic_and_asks_for_it_where_it_is_needed(tmp_path: Path) -> None:
    unpacked(tmp_path)
    done = subprocess.run(  # noqa: S603 - our own Python
        [sys.executable, "-c", ASK.format(folder=str(tmp_path))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("pydantic", "pydantic_core")


def test_the_archive_holds_the_core_and_no_part_that_talks_to_a_cluster() -> None:
    names = set(package_files(PACKAGE))
    assert {"plimsoll/catalog/models.json", "plimsoll/console/templates/calculator_main.html"} <= names
    assert "plimsoll/api/parse.py" in names
    assert not [name for name in names if name.startswith(("plimsoll/app/operator", "plimsoll/adapters/cluster"))]
    assert not [name for name in names if name.startswith("plimsoll/console/pages")]


def test_the_same_files_make_the_same_archive() -> None:
    contents = {"b.py": b"1", "a.py": b"2"}
    assert archive(contents) == archive(dict(reversed(contents.items())))
    assert archive(contents) != archive({**contents, "a.py": b"3"})


def test_a_compiled_part_for_another_machine_is_left_out(tmp_path: Path) -> None:
    wheel = tmp_path / "markupsafe-1-cp314-cp314-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("markupsafe/_native.py", "")
        made.writestr("markupsafe/_speedups.cpython-314-x86_64-linux-gnu.so", "")
    with zipfile.ZipFile(io.BytesIO(archives([wheel])["core.zip"])) as core:
        names = [name for name in core.namelist() if name.startswith("markupsafe")]
    assert names == ["markupsafe/_native.py"]


def test_the_wheels_are_pinned_to_the_versions_that_are_installed_here() -> None:
    pins = re.findall(r"^([\w-]+)==(\S+) --hash=sha256:[0-9a-f]{64}$", WHEELS.read_text("utf-8"), re.MULTILINE)
    constraints = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE))
    known = {name.lower().replace("_", "-"): version for name, version in constraints.items()}
    assert {name for name, _ in pins} >= set(ALWAYS)
    for name, version in pins:
        assert known.get(name.lower().replace("_", "-"), version) == version, name


def test_another_file_of_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFetched, match="it is another file"):
        checked(b"somebody else's")
    monkeypatch.setattr(pyodide_package, "SHA256", "4a2f2d2b6cb3a2f3f1c5d1ad0ca3ff1f5f9a8d3b4b8c4f9e6f3a9b1f0a1c2d3e")
    with pytest.raises(NotFetched):
        checked(b"")
    monkeypatch.setattr(pyodide_package, "SHA256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    assert checked(b"") == b""


def test_the_registry_is_the_one_that_npm_is_configured_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotFetched, match="Set NPM_CONFIG_REGISTRY"):
        registry()
    (tmp_path / ".npmrc").write_text("fund=false\nregistry = https://own.example/npm/\n", "utf-8")
    assert registry() == "https://own.example/npm/"
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "file:///etc")
    with pytest.raises(NotFetched):
        registry()
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://other.example/")
    assert registry() == "https://other.example/"


def test_the_page_has_its_form_before_python_runs_and_asks_no_other_origin() -> None:
    text = index()
    assert '<input id="f-model"' in text
    assert "<!-- form -->" not in text
    assert not re.findall(r'(?:src|href|action)="(?:https?:|/)', text)
    for name, content in site_files().items():
        if name != "index.html":
            assert not re.search(rb"https?://(?!www\.w3\.org)", content), name


def test_scripts_stay_what_the_page_allows() -> None:
    text = index()
    assert "unsafe-inline" not in text
    assert "'unsafe-eval'" not in text
    assert "style=" not in text
    assert re.findall(r"<script[^>]*>", text) == ['<script src="page.js" type="module">']
    assert {path.name for path in SITE.iterdir()} == {"index.html", "page.js", "worker.js"}
