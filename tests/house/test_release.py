"""`make release`: all files of a release, the same bytes for the same sources, and nothing that nobody needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
import yaml

import plimsoll
from scripts.release import __main__ as recipe
from scripts.release.__main__ import main, release
from scripts.release.documents import SUMS, digest
from scripts.release.sources import NO_ID, REGISTRY, REPOSITORY, Addresses, NotReleasable, version_of

ROOT = Path(__file__).resolve().parents[2]
VERSION = plimsoll.__version__
OWN = Addresses("https://code.example.org/loadline", "images.example.org/ai", "11111111-2222-3333-4444-555555555555")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    release(ROOT, folder, OWN)
    return folder


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def member(archive: Path, name: str) -> str:
    with tarfile.open(archive) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read().decode()


def metadata(made: Path) -> Message:
    with zipfile.ZipFile(made / f"plimsoll-{VERSION}-py3-none-any.whl") as wheel:
        return message_from_string(wheel.read(f"plimsoll-{VERSION}.dist-info/METADATA").decode())


def test_it_has_every_kind_of_file_and_the_digest_of_each(made: Path) -> None:
    sums = {line.split("  ")[1]: line.split("  ")[0] for line in (made / SUMS).read_text().splitlines()}
    assert (
        set(sums)
        == {each.name for each in made.iterdir()} - {SUMS}
        == {
            "RELEASE_NOTES.md",
            "artifacthub-repo.yml",
            f"kubectl-plimsoll-{VERSION}.tar.gz",
            f"plimsoll-{VERSION}-py3-none-any.whl",
            f"plimsoll-{VERSION}.cdx.json",
            f"plimsoll-{VERSION}.intoto.json",
            f"plimsoll-{VERSION}.tar.gz",
            f"plimsoll-{VERSION}.tgz",
            f"plimsoll-crds-{VERSION}.yaml",
            f"plimsoll-image-context-{VERSION}.tar.gz",
            "plimsoll.yaml",
        }
    )
    assert {name: digest(made / name) for name in sums} == sums


def test_the_same_sources_give_the_same_bytes_whatever_the_umask(made: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        release(ROOT, tmp_path, OWN)
    finally:
        os.umask(before)
    assert (tmp_path / SUMS).read_text() == (made / SUMS).read_text()


def test_no_placeholder_is_left_where_addresses_are_published(made: Path) -> None:
    texts = [str(metadata(made)), (made / "plimsoll.yaml").read_text(), (made / "artifacthub-repo.yml").read_text()]
    texts += [member(made / f"plimsoll-{VERSION}.tgz", f"plimsoll/{name}") for name in ("Chart.yaml", "README.md")]
    texts += [(made / "RELEASE_NOTES.md").read_text(), (made / f"plimsoll-{VERSION}.intoto.json").read_text()]
    assert [each for text in texts for each in (REPOSITORY, REGISTRY, NO_ID) if each in text] == []


# The packages


def test_the_wheel_says_where_its_project_is_and_its_readme_links_to_addresses(made: Path) -> None:
    said = metadata(made)
    urls = dict(each.split(", ") for each in said.get_all("Project-URL") or ())
    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert all(each.startswith(OWN.repository) for each in urls.values())
    readme = said.get_payload()
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", str(readme))
    assert len(links) > 30
    assert {one or other for one, other in links if not (one or other).startswith((f"{OWN.repository}/", "#"))} == set()


def test_every_link_of_the_readme_leads_to_a_file_of_the_repository(made: Path) -> None:
    paths = re.findall(
        rf"{re.escape(OWN.repository)}/(?:blob|raw)/main/([^)#\"\s]+)", str(metadata(made).get_payload())
    )
    assert paths
    assert [each for each in paths if not (ROOT / each).exists()] == []


def test_the_source_distribution_has_the_package_and_no_testbed_tests_or_answers(made: Path) -> None:
    parts = {name.split("/")[1] for name in names(made / f"plimsoll-{VERSION}.tar.gz") if "/" in name}
    assert parts == {
        ".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "SECURITY.md", "constraints.txt", "operator",
        "pyproject.toml",
    }  # fmt: skip


def test_the_source_distribution_makes_the_same_wheel(made: Path, tmp_path: Path) -> None:
    with tarfile.open(made / f"plimsoll-{VERSION}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
        moment = str(tar.getmembers()[0].mtime)
    folder = tmp_path / f"plimsoll-{VERSION}"
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": moment}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)  # noqa: S603
    (wheel,) = (folder / "dist").iterdir()
    assert digest(wheel) == digest(made / wheel.name)


def test_the_chart_has_no_file_that_helm_ignores(made: Path) -> None:
    inside = {each.removeprefix("plimsoll/") for each in names(made / f"plimsoll-{VERSION}.tgz")}
    chart = ROOT / "charts" / "plimsoll"
    there = {str(each.relative_to(chart)) for each in chart.rglob("*") if each.is_file()}
    assert there - inside == {"README.md.gotmpl"}
    assert inside <= there


def test_the_image_context_holds_what_the_containerfile_copies_and_no_more(made: Path) -> None:
    inside = names(made / f"plimsoll-image-context-{VERSION}.tar.gz")
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    copied_names = {word.removeprefix("./") for line in copies for word in line.split()}
    assert {each.split("/")[0] for each in inside} == copied_names | {"Containerfile", ".containerignore"}
    assert not any("__pycache__" in each for each in inside)


# The plugin


def test_krew_finds_the_archive_by_its_digest_and_the_program_in_it(made: Path) -> None:
    (platform,) = yaml.safe_load((made / "plimsoll.yaml").read_text())["spec"]["platforms"]
    archive = made / platform["uri"].rpartition("/")[2]
    assert platform["uri"].startswith(f"{OWN.repository}/releases/download/v{VERSION}/")
    assert platform["sha256"] == digest(archive)
    assert {platform["bin"], "LICENSE", f"plimsoll-{VERSION}-py3-none-any.whl"} <= set(names(archive))


@pytest.fixture
def plugin(made: Path, tmp_path: Path) -> Path:
    """The unpacked plugin, below a folder with a space, and a Python that notes what it is asked for."""
    folder = tmp_path / "krew store"
    with tarfile.open(made / f"kubectl-plimsoll-{VERSION}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    python = tmp_path / "python3"
    python.write_text(
        f"""#!/bin/sh
echo "$*" >> "{tmp_path}/calls"
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/bin/plimsoll" && chmod +x "$3/bin/plimsoll" ;;
  "-m pip") exit "${{PIP_STATUS:-0}}" ;;
esac
"""
    )
    python.chmod(0o755)
    return folder / "kubectl-plimsoll"


def run(
    plugin: Path, home: Path, *words: str, python: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    found = {"PYTHON": str(home / "python3") if python is None else python, "HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(  # noqa: S603
        [str(plugin), *words], env=found | more, capture_output=True, text=True, check=False
    )


def calls(home: Path) -> Iterator[str]:
    yield from (line for line in (home / "calls").read_text().splitlines() if not line.startswith("-c"))


def test_the_plugin_installs_itself_once_and_hands_its_words_on(plugin: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(plugin, tmp_path, "plan", "-f", "a b").returncode == 0
    venv, pip, *uses = calls(tmp_path)
    assert venv.startswith("-m venv ")
    assert re.search(r"--constraint .*/constraints\.txt .*-py3-none-any\.whl\[operator\]$", pip)
    assert uses == ["-m plimsoll plan -f a b"] * 2


def test_an_installation_that_failed_is_begun_anew(plugin: Path, tmp_path: Path) -> None:
    assert run(plugin, tmp_path, "gpus", PIP_STATUS="1").returncode == 1
    assert list((tmp_path / ".local/share/kubectl-plimsoll").iterdir()) == []
    assert run(plugin, tmp_path, "gpus").returncode == 0


def test_without_a_python_that_is_new_enough_one_sentence_says_so(plugin: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("basename", "dirname", "readlink", "sh"):
        (programs / name).symlink_to(str(shutil.which(name)))
    old = programs / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    ran = run(plugin, tmp_path, "gpus", python="", PATH=str(programs))
    assert ran.returncode == 2
    assert ran.stderr == "error: kubectl plimsoll needs Python 3.11 or newer with venv; set PYTHON=/path/to/python3\n"


# What is said of it


def test_the_bill_of_materials_has_every_package_of_the_lock_and_its_digests(made: Path) -> None:
    bill = json.loads((made / f"plimsoll-{VERSION}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    lock = (ROOT / "constraints.hashes.txt").read_text().replace("\\\n", " ")
    pinned = {line.split()[0]: sorted(re.findall(r"sha256:(\w+)", line)) for line in lock.splitlines() if "==" in line}
    found = {
        f"{each['name']}=={each['version']}": sorted(one["content"] for one in each["hashes"])
        for each in bill["components"]
    }
    assert found == pinned
    own = bill["metadata"]["component"]
    license_of_package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert own["licenses"][0]["expression"] == license_of_package
    assert own["hashes"][0]["content"] == digest(made / f"plimsoll-{VERSION}-py3-none-any.whl")
    (needs,) = (each["dependsOn"] for each in bill["dependencies"] if each["ref"] == own["bom-ref"])
    assert len(needs) == len(pinned)


def test_the_provenance_names_every_file_the_commit_and_the_locks(made: Path) -> None:
    statement = json.loads((made / f"plimsoll-{VERSION}.intoto.json").read_text())
    subjects = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    about_it = {"RELEASE_NOTES.md", SUMS, f"plimsoll-{VERSION}.intoto.json"}
    assert subjects == {each.name: digest(each) for each in made.iterdir() if each.name not in about_it}
    source, *locks = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
    assert source["digest"]["gitCommit"] == head.stdout.strip()
    assert {each["name"]: each["digest"]["sha256"] for each in locks} == {
        each["name"]: digest(ROOT / each["name"]) for each in locks
    }


def test_the_notes_are_the_changelogs_with_links_that_lead_somewhere(made: Path) -> None:
    said = (made / "RELEASE_NOTES.md").read_text()
    assert "**Before you upgrade**" in said
    assert [each for each in re.findall(r"\]\(([^)\s]+)\)", said) if not each.startswith(("http", "#"))] == []
    assert f"{digest(made / f'plimsoll-{VERSION}.tgz')}  plimsoll-{VERSION}.tgz" in said


def test_the_crds_are_those_of_the_chart_in_one_file(made: Path) -> None:
    kinds = [
        each["spec"]["names"]["kind"]
        for each in yaml.safe_load_all((made / f"plimsoll-crds-{VERSION}.yaml").read_text())
    ]
    assert sorted(kinds) == ["InferenceDeployment", "PlacementApproval", "PlacementProposal"]


# What cannot be released


def test_versions_that_differ_are_refused(tmp_path: Path) -> None:
    package, chart = (tmp_path / each for each in ("operator/plimsoll", "charts/plimsoll"))
    for folder in (package, chart):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.0"\n')
    (chart / "Chart.yaml").write_text("version: 1.0.0\nappVersion: '1.0'\n")
    with pytest.raises(NotReleasable, match=r"The versions differ \(1\.0, 1\.0\.0\)"):
        version_of(tmp_path)
    assert version_of(ROOT) == VERSION


def test_what_is_not_committed_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipe, "uncommitted", lambda _: ["README.md"])
    kept = tmp_path / "kept"
    kept.touch()
    assert main(["--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "error: not committed: README.md. A release is made of a commit.\n"
    assert kept.exists()


def test_a_folder_with_other_files_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recipe, "uncommitted", lambda _: [])
    kept = tmp_path / "kept"
    kept.touch()
    assert main(["--output", str(tmp_path)]) == 2
    assert "holds other files than a release" in capsys.readouterr().err
    assert kept.exists()


def test_an_earlier_release_is_replaced_and_placeholders_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing_but_sums(_: Path, target: Path, __: Addresses) -> list[Path]:
        (target / SUMS).touch()
        return [target / SUMS]

    monkeypatch.setattr(recipe, "uncommitted", lambda _: [])
    monkeypatch.setattr(recipe, "release", nothing_but_sums)
    for name in (SUMS, "older.whl"):
        (tmp_path / name).touch()
    assert main(["--output", str(tmp_path)]) == 0
    assert [each.name for each in tmp_path.iterdir()] == [SUMS]
    said = capsys.readouterr()
    assert said.out.endswith(f"  {SUMS}\n")
    assert said.err.startswith("note: the addresses are placeholders")
    assert main(["--output", str(tmp_path), "--repository", OWN.repository, "--registry", OWN.registry]) == 0
    assert capsys.readouterr().err == ""


def test_the_build_tools_of_a_release_are_those_that_the_image_builds_with() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    builders = {re.split(r"[<>=]", each)[0] for each in pyproject["build-system"]["requires"]}
    assert builders <= {re.split(r"[<>=]", each)[0] for each in pyproject["dependency-groups"]["release"]}
