"""What is built, where it is kept, and from what it is found without building."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from testbed import binaries, cache
from testbed.binaries import BuildFailed, build_command, ensure_binaries
from testbed.go_toolchain import parse_go_version, required_go
from testbed.versions import FAMILIES, HELM_DOCS_FAMILY, ISTIO_FAMILY, KSTATUS_FAMILY, KUEUE_FAMILY, KWOK_STAGES

PROGRAMS = [program.name for family in FAMILIES for program in family.programs]


def fill(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def fill_cache() -> None:
    for family in FAMILIES:
        fill(cache.family_directory(family), [program.name for program in family.programs])
        if family.name == "kwok":
            fill(cache.family_directory(family) / "stages", [Path(name).name for name in KWOK_STAGES])


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PLIMSOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PLIMSOLL_BUILD_ALL", "1")  # whatever this machine has of its own
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache"


def test_what_is_in_the_cache_is_not_built(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    fill_cache()
    monkeypatch.setenv("PATH", "")  # no Go to build with

    found = ensure_binaries()

    assert sorted(found.programs) == sorted(PROGRAMS)
    assert all(path.is_relative_to(own_cache) for path in found.programs.values())


def test_the_cache_key_changes_with_everything_that_changes_the_bytes() -> None:
    family = FAMILIES[0]
    keys = {
        cache.family_directory(changed)
        for changed in (family, replace(family, version="0"), replace(family, ldflags=()), replace(family, tags=("x",)))
    }

    assert len(keys) == 4


def test_the_cache_key_changes_with_the_source_of_a_program_of_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(cache.TOOLCHAIN / KSTATUS_FAMILY.name, tmp_path / KSTATUS_FAMILY.name)
    monkeypatch.setattr(cache, "TOOLCHAIN", tmp_path)
    before = cache.family_directory(KSTATUS_FAMILY)
    (tmp_path / KSTATUS_FAMILY.name / "main.go").write_text("package main\n")
    assert cache.family_directory(KSTATUS_FAMILY) != before


def test_a_failed_build_shows_gos_words_and_leaves_no_binary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_cache: Path
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho no space left on device; exit 3\n")
    go.chmod(0o755)
    monkeypatch.setattr(binaries, "find_go", lambda *_: go)
    said: list[str] = []

    with pytest.raises(BuildFailed, match=r"etcd 3.*status 3:\nno space left on device"):
        ensure_binaries(said.append)

    assert said[1] == f"[1/{len(PROGRAMS)}] etcd {FAMILIES[0].version}: building"
    assert not list(own_cache.glob("*/etcd"))


def test_kubernetes_is_stamped_for_servers_and_clients() -> None:
    family = next(family for family in FAMILIES if family.name == "kubernetes")
    command = build_command(Path("/go"), family, family.programs[0], Path("/out"))

    flags = command[command.index("-ldflags") + 1]
    assert f"-X k8s.io/component-base/version.gitVersion=v{family.version}" in flags
    assert f"-X k8s.io/client-go/pkg/version.gitVersion=v{family.version}" in flags


@pytest.mark.parametrize(
    "family", [*FAMILIES, KUEUE_FAMILY, HELM_DOCS_FAMILY, ISTIO_FAMILY, KSTATUS_FAMILY], ids=lambda family: family.name
)
def test_pinned_versions_agree_with_the_module_files(family: object) -> None:
    module = (cache.TOOLCHAIN / getattr(family, "name") / "go.mod").read_text()  # noqa: B009
    version = getattr(family, "version")  # noqa: B009
    # Prometheus numbers its Go module 0.314.0 where the program says 3.14.0.
    wanted = "v0.314.0" if getattr(family, "name") == "prometheus" else f"v{version}"  # noqa: B009

    assert f" {wanted}\n" in module or f" {wanted} // indirect\n" in module


def test_go_versions_are_compared_as_numbers() -> None:
    assert required_go("module x\n\ngo 1.26.0\n") == (1, 26, 0)
    assert parse_go_version("go1.9.7") == (1, 9, 7)
    assert parse_go_version("go1.26") == (1, 26, 0)
    assert parse_go_version("devel +abc") is None
    with pytest.raises(ValueError, match="no `go` line"):
        required_go("module x\n")
