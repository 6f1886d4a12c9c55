"""The image: a pinned base, nobody's root, and nothing in it that it is not made of."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from scripts.lock_hashes import requirements_of

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in (ROOT / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]


def every(instruction: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == instruction]


def last_stage() -> list[tuple[str, ...]]:
    start = max(number for number, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM")
    return INSTRUCTIONS[start:]


def test_every_base_is_pinned_to_a_patch_release_of_one_distribution() -> None:
    assert {base.split()[0] for base in every("FROM")} == {"${PYTHON_IMAGE}"}
    (given,) = every("ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", given)


def locked(name: str) -> dict[str, list[str]]:
    """Digests by ``name==version`` of a lock file."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {line[0]: [word.removeprefix("--hash=sha256:") for word in line[1:]] for line in lines}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_locks_have_the_versions_of_the_constraints_and_a_digest_of_every_file() -> None:
    pins = (line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    versions = {normalized(name): version for name, version in pins}
    for name in ("constraints.hashes.txt", "constraints.build.hashes.txt"):
        digests = locked(name)
        assert digests
        assert all(found and all(re.fullmatch(r"[0-9a-f]{64}", each) for each in found) for found in digests.values())
        here = {normalized(pin.split("==")[0]): pin.split("==")[1] for pin in digests}
        assert {each: version for each, version in here.items() if versions.get(each, version) != version} == {}
    assert {normalized(pin.split("==")[0]) for pin in locked("constraints.hashes.txt")} <= versions.keys()


def test_the_lock_holds_everything_that_the_operator_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {normalized(re.split(r"[^\w.-]", each)[0]) for each in requirements_of(project["project"])}
    assert {"kopf", "kubernetes", "huggingface-hub", "pydantic"} <= wanted
    assert wanted <= {normalized(pin.split("==")[0]) for pin in locked("constraints.hashes.txt")}
    builders = {normalized(re.split(r"[^\w.-]", each)[0]) for each in project["build-system"]["requires"]}
    assert builders <= {normalized(pin.split("==")[0]) for pin in locked("constraints.build.hashes.txt")}


def test_no_lock_names_where_the_files_come_from() -> None:
    for name in ("constraints.hashes.txt", "constraints.build.hashes.txt"):
        assert not re.search(r"://|--(?!hash=sha256:)", (ROOT / name).read_text())


def test_the_image_runs_as_the_charts_numeric_user() -> None:
    users = [rest for name, rest in last_stage() if name == "USER"]
    values = yaml.safe_load((ROOT / "charts" / "plimsoll" / "values.yaml").read_text())
    uid, gid = values["podSecurityContext"]["runAsUser"], values["podSecurityContext"]["runAsGroup"]
    assert users == [f"{uid}:{gid}"]
    assert uid != 0


def test_the_entry_point_is_the_program_and_run_its_default() -> None:
    assert every("ENTRYPOINT") == ['["plimsoll"]']
    assert every("CMD") == ['["run"]']


def test_what_is_installed_is_locked_or_was_built_here() -> None:
    commands = [part for rest in every("RUN") for part in rest.split("&&") if re.search(r"pip (install|wheel)", part)]
    assert len(commands) == 4
    assert all("--require-hashes" in command or "--no-index --no-deps" in command for command in commands)


def test_the_last_stage_takes_only_the_installed_program() -> None:
    assert [rest for name, rest in last_stage() if name in ("COPY", "ADD", "RUN")] == [
        "--from=build /opt/plimsoll /opt/plimsoll"
    ]


def test_the_build_sees_only_what_it_copies() -> None:
    lines = (ROOT / ".containerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source.removeprefix("./") for rest in every("COPY") if "--from" not in rest for source in rest.split()[:-1]
    }
    assert "*" in lines
    assert allowed == copied
    assert all((ROOT / name).exists() for name in copied)
