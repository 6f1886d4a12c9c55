"""Programs that the machine has already: used if their version suits, named if it does not, asked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import binaries, own_programs
from testbed.binaries import ensure_binaries
from testbed.cache import family_directory
from testbed.versions import ETCD, FAMILIES, HELM, KUBERNETES, KWOK, KWOK_STAGES, PROMETHEUS

MINOR = ".".join(KUBERNETES.split(".")[:2])
ANSWERS = {
    "etcd": f"etcd Version: {ETCD}\nGit SHA: 0123\nGo Version: go1.26.8",
    "etcdctl": f"etcdctl version: {ETCD}\nAPI version: 3.6",
    "kube-apiserver": f"Kubernetes v{MINOR}.0+k3s1",
    "kube-controller-manager": f"Kubernetes v{KUBERNETES}",
    "kube-scheduler": f"Kubernetes v{KUBERNETES}",
    "kubectl": f"Client Version: v{MINOR}.9\nKustomize Version: v5.8.1",
    "kwok": f"kwok version v{KWOK} go1.26.8 (linux/amd64)",
    "helm": f"v{HELM}+g0123456",
    "prometheus": f"prometheus, version {PROMETHEUS} (branch: HEAD, revision: 0123)\n  go version: go1.26.1",
}


class Machine:
    """A machine with folders of programs that do nothing but say their version, and what was said to the person."""

    def __init__(self, root: Path) -> None:
        self.path, self.assets, self.asked = root / "path", root / "assets", root / "asked"
        self.said: list[str] = []

    def has(self, folder: Path, name: str, answer: str | None = None, status: int = 0) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / name
        text = ANSWERS[name] if answer is None else answer
        program.write_text(f"#!/bin/sh\necho {name} >> {self.asked}\nprintf '%s\\n' '{text}'\nexit {status}\n")
        program.chmod(0o755)
        return program

    def finds(self) -> dict[str, Path]:
        return ensure_binaries(self.said.append).programs

    def questions(self) -> list[str]:
        return self.asked.read_text().split() if self.asked.exists() else []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """Nothing is built, and the stage files are there; whoever needs Go fails."""
    made = Machine(tmp_path)
    monkeypatch.setenv("PLIMSOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{made.path}:/usr/bin:/bin")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(made.assets))
    monkeypatch.delenv("PLIMSOLL_BUILD_ALL", raising=False)
    monkeypatch.setattr(binaries, "_SAID", set())
    kwok = next(family for family in FAMILIES if family.name == "kwok")
    stages = family_directory(kwok) / "stages"
    stages.mkdir(parents=True)
    for name in KWOK_STAGES:
        (stages / Path(name).name).touch()

    def no_go(*_: object) -> None:
        raise AssertionError("something is to be built")

    monkeypatch.setattr(binaries, "find_go", no_go)
    return made


def built(name: str) -> Path:
    return next(family_directory(family) / name for family in FAMILIES for each in family.programs if each.name == name)


def test_a_machine_that_has_them_all_builds_nothing_and_is_told_what_is_used(machine: Machine) -> None:
    for name in ANSWERS:
        machine.has(machine.path, name)

    assert machine.finds() == {name: machine.path / name for name in ANSWERS}
    assert f"kubectl {MINOR}.9 of $PATH ({machine.path}/kubectl) is used" in machine.said
    assert len(machine.said) == len(ANSWERS)


def test_assets_go_before_what_was_built_and_that_before_the_path(machine: Machine) -> None:
    for name in ANSWERS:
        machine.has(machine.path, name)
        machine.has(built(name).parent, name)
    for name in ("etcd", "kube-apiserver", "kubectl"):  # what envtest's setup gives
        machine.has(machine.assets, name)

    found = machine.finds()

    provided = ["etcd", "kube-apiserver", "kubectl"]
    assert [name for name, path in found.items() if path.parent == machine.assets] == provided
    assert [name for name in found if found[name] != built(name)] == provided


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("kubectl", "Client Version: v1.32.4-x", f"kubectl 1.32.4 of {{}} is not used: {MINOR} is needed"),
        (
            "etcd",
            "etcd Version: 3.4.30\nGo Version: go3.5.1",
            "etcd 3.4.30 of {} is not used: 3.5 or newer, below 3.7, is",
        ),
        ("helm", "v4.0.1+g12", "helm 4.0.1 of {} is not used: 3.8 or newer, below 4.0, is needed"),
        ("kwok", "kwok version v0.7.0", f"kwok 0.7.0 of {{}} is not used: {KWOK[:3]} is needed"),
        ("prometheus", "prometheus, version 2.39.1", "prometheus 2.39.1 of {} is not used: 2.40 or newer"),
        ("kube-scheduler", "what?", "kube-scheduler of an unknown version of {} is not used: "),
    ],
    ids=["kubectl", "etcd", "helm", "kwok", "prometheus", "no version"],
)
def test_a_program_of_another_version_is_named_and_not_used(
    machine: Machine, name: str, answer: str, words: str
) -> None:
    for each in ANSWERS:
        machine.has(built(each).parent, each)
    other = machine.has(machine.assets, name, answer)
    honest = machine.has(machine.assets, "etcdctl")

    found = machine.finds()

    assert (found[name], found["etcdctl"]) == (built(name), honest)
    assert any(line.startswith(words.format(f"$KUBEBUILDER_ASSETS ({other})")) for line in machine.said), machine.said


def test_a_program_that_fails_or_never_answers_is_not_used(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_programs, "_ANSWER_SECONDS", 0.5)
    for each in ANSWERS:
        machine.has(built(each).parent, each)
    machine.has(machine.assets, "helm", status=1)
    silent = machine.has(machine.assets, "etcd")
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    (machine.assets / "kubectl").write_text("no program\n")
    (machine.assets / "kubectl").chmod(0o755)

    found = machine.finds()

    assert found == {name: built(name) for name in ANSWERS}


def test_a_program_is_asked_again_only_when_its_file_has_changed(machine: Machine) -> None:
    for each in ANSWERS:
        machine.has(built(each).parent, each)
    machine.has(machine.assets, "kubectl")
    assert machine.finds()["kubectl"] == machine.finds()["kubectl"] == machine.assets / "kubectl"
    assert machine.questions() == ["kubectl"]
    assert len(machine.said) == 1

    machine.has(machine.assets, "kubectl", "Client Version: v1.20.0 of long ago")

    assert machine.finds()["kubectl"] == built("kubectl")
    assert machine.questions() == ["kubectl", "kubectl"]


def test_a_memory_that_was_cut_off_is_begun_anew(machine: Machine, tmp_path: Path) -> None:
    for each in ANSWERS:
        machine.has(built(each).parent, each)
    machine.has(machine.assets, "kubectl")
    (tmp_path / "cache" / "program-versions.json").write_text('{"/usr/bin/kube')
    assert machine.finds()["kubectl"] == machine.assets / "kubectl"


def test_all_are_built_for_who_asks_for_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ANSWERS:
        machine.has(machine.assets, each)
        machine.has(machine.path, each)
    monkeypatch.setenv("PLIMSOLL_BUILD_ALL", "1")
    with pytest.raises(AssertionError, match="something is to be built"):
        machine.finds()
    assert machine.questions() == []
