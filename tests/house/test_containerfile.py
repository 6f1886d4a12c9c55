"""The image: a pinned base, nobody's root, and nothing in it that it is not made of."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

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
    bases = {base.split()[0] for base in every("FROM")}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", bases.pop())


def test_the_image_runs_as_the_charts_numeric_user() -> None:
    users = [rest for name, rest in last_stage() if name == "USER"]
    values = yaml.safe_load((ROOT / "charts" / "plimsoll" / "values.yaml").read_text())
    uid, gid = values["podSecurityContext"]["runAsUser"], values["podSecurityContext"]["runAsGroup"]
    assert users == [f"{uid}:{gid}"]
    assert uid != 0


def test_the_entry_point_is_the_program_and_run_its_default() -> None:
    assert every("ENTRYPOINT") == ['["plimsoll"]']
    assert every("CMD") == ['["run"]']


def test_what_is_installed_is_constrained() -> None:
    installs = [rest for rest in every("RUN") if "pip install" in rest]
    assert len(installs) == 1
    assert "PIP_CONSTRAINT=/src/constraints.txt" in installs[0]


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
