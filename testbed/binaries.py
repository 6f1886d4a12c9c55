"""The programs of the control plane: found, or built from source on first use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from testbed import versions
from testbed.cache import TOOLCHAIN, build_lock, cache_directory, family_directory
from testbed.go_toolchain import find_go, required_go
from testbed.versions import FAMILIES, Family, Program

_SIGN_OF_LIFE_SECONDS = 20.0
_MODULE_DOWNLOAD_SECONDS = 600.0


class BuildFailed(RuntimeError):
    """A program could not be built; the message carries Go's last lines."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of every program by name, and of the stage files that belong to this kwok."""

    programs: dict[str, Path]
    stages: Path

    def __getitem__(self, name: str) -> Path:
        """The path of one program. Raises KeyError for a name that ``versions.FAMILIES`` does not have."""
        return self.programs[name]


@dataclass(frozen=True, slots=True)
class _Job:
    family: Family
    program: Program
    target: Path


def say_to_stderr(line: str) -> None:
    """Narrate to the person who waits."""
    print(line, file=sys.stderr, flush=True)


def ensure_binaries(say: Callable[[str], None] = say_to_stderr) -> Binaries:
    """Build what is missing, and return where everything is.

    A second run side by side waits for the first one's build. A run that was cut off continues: finished binaries stay,
    and Go's own cache holds the packages of the unfinished one.

    Raises:
        BuildFailed: Go turned a build down.
        GoNotUsable: something must be built, and there is no Go to do it.
    """
    found = {program.name: _find(family, program) for family in FAMILIES for program in family.programs}
    stages = family_directory(_family("kwok")) / "stages"
    if all(path.exists() for path in found.values()) and _has_stages(stages):
        return Binaries(programs=found, stages=stages)
    with build_lock():
        _build_missing(say)
    return Binaries(programs=found, stages=stages)


def _find(family: Family, program: Program) -> Path:
    """A binary that somebody provides through ``$KUBEBUILDER_ASSETS`` goes before one of our own."""
    provided = os.environ.get("KUBEBUILDER_ASSETS")
    if provided and os.access(Path(provided) / program.name, os.X_OK):
        return Path(provided) / program.name
    return family_directory(family) / program.name


def _family(name: str) -> Family:
    return next(family for family in FAMILIES if family.name == name)


def _build_missing(say: Callable[[str], None]) -> None:
    jobs = [
        _Job(family, program, target)
        for family in FAMILIES
        for program in family.programs
        if not (target := _find(family, program)).exists()
    ]
    stages = family_directory(_family("kwok")) / "stages"
    if not jobs and _has_stages(stages):
        return
    needed = max(required_go((TOOLCHAIN / family.name / "go.mod").read_text()) for family in FAMILIES)
    go = find_go(needed, cache_directory(), say)
    if jobs:
        say(
            f"Building {len(jobs)} programs from source into {cache_directory()}: minutes on the first run, never again"
        )
    for number, job in enumerate(jobs, start=1):
        _build(go, job, f"[{number}/{len(jobs)}] {job.program.name} {job.family.version}", say)
    if not _has_stages(stages):
        _copy_stages(go, stages)


def build_command(go: Path, family: Family, program: Program, output: Path) -> list[str]:
    """The command line that builds one program; run it inside the family's module."""
    tags = ["-tags", ",".join(family.tags)] if family.tags else []
    return [str(go), "build", "-ldflags", " ".join(family.ldflags), *tags, "-o", str(output), program.package]


def _go_environment() -> dict[str, str]:
    """Reproducible settings; ``-trimpath`` keeps this machine's paths out of the binaries."""
    return os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-trimpath", "GOWORK": "off"}


def _build(go: Path, job: _Job, title: str, say: Callable[[str], None]) -> None:
    started = time.monotonic()
    job.target.parent.mkdir(parents=True, exist_ok=True)
    partial = job.target.with_name(f".{job.target.name}.partial")
    log = job.target.with_name(f"{job.target.name}.build.log")
    say(f"{title}: building")
    with log.open("w") as output:
        build = subprocess.Popen(
            build_command(go, job.family, job.program, partial),
            cwd=TOOLCHAIN / job.family.name,
            env=_go_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = _wait_aloud(build, title, started, say)
        finally:
            _end(build)
    if status != 0:
        raise BuildFailed(f"{title}: go build failed with status {status}:\n{log.read_text()[-4000:]}")
    partial.rename(job.target)
    log.unlink()
    say(f"{title}: done in {time.monotonic() - started:.0f} s")


def _wait_aloud(build: subprocess.Popen[bytes], title: str, started: float, say: Callable[[str], None]) -> int:
    while True:
        try:
            return build.wait(timeout=_SIGN_OF_LIFE_SECONDS)
        except subprocess.TimeoutExpired:
            say(f"{title}: still building, {time.monotonic() - started:.0f} s")


def _end(build: subprocess.Popen[bytes]) -> None:
    """Leave no compiler behind when the wait was interrupted; no-op after a normal end."""
    if build.poll() is None:
        build.terminate()
        build.wait(timeout=30)


def _copy_stages(go: Path, stages: Path) -> None:
    """Keep kwok's own stage files beside the binary, so that a later run needs no Go."""
    command = [str(go), "mod", "download", "-json", f"sigs.k8s.io/kwok@v{versions.KWOK}"]
    asked = subprocess.run(
        command,
        cwd=TOOLCHAIN / "kwok",
        env=_go_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_MODULE_DOWNLOAD_SECONDS,
    )
    if asked.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{asked.stdout}{asked.stderr}")
    source = Path(json.loads(asked.stdout)["Dir"]) / "kustomize" / "stage"
    partial = stages.with_name(".stages.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name in versions.KWOK_STAGES:
        # copyfile and not copy: Go's module cache is read-only, and so would the copies be.
        shutil.copyfile(source / name, partial / Path(name).name)
    shutil.rmtree(stages, ignore_errors=True)
    partial.rename(stages)


def _has_stages(stages: Path) -> bool:
    return all((stages / Path(name).name).exists() for name in versions.KWOK_STAGES)
