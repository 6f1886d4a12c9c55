"""The programs of the control plane: found on this machine, or built from source on first use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed import versions
from testbed.cache import TOOLCHAIN, build_lock, cache_directory, family_directory
from testbed.go_toolchain import find_go, required_go
from testbed.own_programs import from_assets, from_path
from testbed.processes import dies_with_us
from testbed.versions import (
    ENDPOINT_PICKER_FAMILY,
    FAMILIES,
    GATEWAY_API_FAMILY,
    HELM_DOCS_FAMILY,
    ISTIO_FAMILY,
    KSTATUS_FAMILY,
    KUEUE_FAMILY,
    Family,
    Program,
)

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
class ProgramFiles:
    """Where a program is, and the manifests of its module that belong to it."""

    program: Path
    manifests: Path


@dataclass(frozen=True, slots=True)
class _Job:
    family: Family
    program: Program
    target: Path


def say_to_stderr(line: str) -> None:
    """Narrate to the person who waits."""
    print(line, file=sys.stderr, flush=True)


def ensure_binaries(say: Callable[[str], None] = say_to_stderr) -> Binaries:
    """Find what there is, build what is missing, and return where everything is.

    In this order: ``$KUBEBUILDER_ASSETS``, what was built before, ``$PATH``. A second run side by side waits for the
    first one's build. A run that was cut off continues: finished binaries stay, and Go's own cache holds the packages
    of the unfinished one.

    Raises:
        BuildFailed: Go turned a build down.
        GoNotUsable: something must be built, and there is no Go to do it.
    """
    found = {program.name: _find(family, program, say) for family in FAMILIES for program in family.programs}
    stages = family_directory(_family("kwok")) / "stages"
    if not all(path.exists() for path in found.values()) or not _has_stages(stages):
        with build_lock(say):
            _build_missing(found, say)
    return Binaries(programs=found, stages=stages)


def ensure_helm_docs(say: Callable[[str], None] = say_to_stderr) -> Path:
    """Build helm-docs if it is missing, and return where it is; :func:`ensure_binaries` leaves it out.

    Raises:
        BuildFailed: Go turned the build down.
        GoNotUsable: it must be built, and there is no Go to do it.
    """
    family = HELM_DOCS_FAMILY
    (program,) = family.programs
    built = family_directory(family) / program.name
    with build_lock(say):
        if not built.exists():
            go = _go_for(family, say)
            _build(go, _Job(family, program, built), f"[1/1] {program.name} {family.version}", say)
    return built


def ensure_kueue(say: Callable[[str], None] = say_to_stderr) -> ProgramFiles:
    """Build Kueue if it is missing, and return where it is; :func:`ensure_binaries` leaves it out.

    Raises:
        BuildFailed: Go turned the build down.
        GoNotUsable: it must be built, and there is no Go to do it.
    """
    return _with_manifests(KUEUE_FAMILY, f"sigs.k8s.io/kueue@v{versions.KUEUE}", versions.KUEUE_MANIFESTS, say)


def ensure_endpoint_picker(say: Callable[[str], None] = say_to_stderr) -> ProgramFiles:
    """Build the endpoint picker if it is missing, and return where it is, with its custom resources.

    Raises:
        BuildFailed: Go turned the build down.
        GoNotUsable: it must be built, and there is no Go to do it.
    """
    return _with_manifests(ENDPOINT_PICKER_FAMILY, _PICKER_MODULE, versions.ENDPOINT_PICKER_MANIFESTS, say)


def ensure_routing_kinds(say: Callable[[str], None] = say_to_stderr) -> tuple[Path, Path]:
    """Fetch the custom resources of routing if they are missing: those of the picker, and those of the Gateway API.

    Nothing is built. Returns the two folders that hold them.

    Raises:
        BuildFailed: Go could not fetch a module.
        GoNotUsable: there is no Go to do it.
    """
    pools, gateways = _manifests_of(ENDPOINT_PICKER_FAMILY), _manifests_of(GATEWAY_API_FAMILY)
    if not (pools.exists() and gateways.exists()):
        with build_lock(say):
            _manifests(ENDPOINT_PICKER_FAMILY, _PICKER_MODULE, versions.ENDPOINT_PICKER_MANIFESTS, say)
            _manifests(GATEWAY_API_FAMILY, _GATEWAY_MODULE, versions.GATEWAY_API_MANIFESTS, say)
    return pools, gateways


_PICKER_MODULE = f"sigs.k8s.io/gateway-api-inference-extension@v{versions.ENDPOINT_PICKER}"
_GATEWAY_MODULE = f"sigs.k8s.io/gateway-api@v{versions.GATEWAY_API}"


def _with_manifests(family: Family, module: str, manifests: Iterable[str], say: Callable[[str], None]) -> ProgramFiles:
    """Build the only program of a family if it is missing, and copy manifests of its module next to it."""
    with build_lock(say):
        program = _program_of(family)
        if not program.exists():
            _build_alone(_go_for(family, say), family, say)
        return ProgramFiles(program, _manifests(family, module, manifests, say))


def _manifests_of(family: Family) -> Path:
    """Where the manifests of a family are kept."""
    return family_directory(family) / "config"


def _manifests(family: Family, module: str, names: Iterable[str], say: Callable[[str], None]) -> Path:
    """Copy manifests of a module into the family's folder if they are missing."""
    target = _manifests_of(family)
    if not target.exists():
        config = _module(_go_for(family, say), family, module) / "config"
        _copy([file for name in names for file in _yaml_files(config / name)], target)
    return target


def _go_for(family: Family, say: Callable[[str], None]) -> Path:
    """A Go that the module of a family takes."""
    return find_go(required_go((TOOLCHAIN / family.name / "go.mod").read_text()), cache_directory(), say)


def ensure_kstatus(say: Callable[[str], None] = say_to_stderr) -> Path:
    """Build the program that judges objects by kstatus if it is missing, and return where it is.

    It reads a JSON list of objects and writes one of verdicts. :func:`ensure_binaries` leaves it out.

    Raises:
        BuildFailed: Go turned the build down.
        GoNotUsable: it must be built, and there is no Go to do it.
    """
    return _alone(KSTATUS_FAMILY, say)


def ensure_istiod(say: Callable[[str], None] = say_to_stderr) -> Path:
    """Build Istio's control plane if it is missing, and return where it is; :func:`ensure_binaries` leaves it out.

    Raises:
        BuildFailed: Go turned the build down.
        GoNotUsable: it must be built, and there is no Go to do it.
    """
    return _alone(ISTIO_FAMILY, say)


def _alone(family: Family, say: Callable[[str], None]) -> Path:
    """Build the only program of a family if it is missing, and return where it is."""
    program = _program_of(family)
    with build_lock(say):
        if not program.exists():
            _build_alone(_go_for(family, say), family, say)
    return program


def _program_of(family: Family) -> Path:
    """Where the only program of a family is."""
    (program,) = family.programs
    return family_directory(family) / program.name


def _build_alone(go: Path, family: Family, say: Callable[[str], None]) -> None:
    """Build the only program of a family if it is missing."""
    (program,), target = family.programs, _program_of(family)
    if not target.exists():
        say(f"Building {program.name} from source into {target.parent}, once: it may take some minutes.")
        _build(go, _Job(family, program, target), f"[1/1] {program.name} {family.version}", say)


def _yaml_files(path: Path) -> list[Path]:
    """A file, or those of a folder."""
    return sorted(path.glob("*.yaml")) if path.is_dir() else [path]


def _find(family: Family, program: Program, say: Callable[[str], None]) -> Path:
    """The program's path; that of one of our own where it is yet to be built."""
    built = family_directory(family) / program.name
    for look, is_wanted in ((from_assets, True), (from_path, not built.exists())):
        own = look(family, program) if is_wanted else None
        if own is not None:
            _say_once(own.words(program.name), say)
            if not own.refused:
                return own.path
    return built


_SAID: set[str] = set()


def _say_once(line: str, say: Callable[[str], None]) -> None:
    """Every control plane of a test run asks for the programs, and one line about each is enough."""
    if line not in _SAID:
        _SAID.add(line)
        say(line)


def _family(name: str) -> Family:
    return next(family for family in FAMILIES if family.name == name)


def _build_missing(found: Mapping[str, Path], say: Callable[[str], None]) -> None:
    jobs = [
        _Job(family, program, target)
        for family in FAMILIES
        for program in family.programs
        if not (target := found[program.name]).exists()
    ]
    stages = family_directory(_family("kwok")) / "stages"
    if not jobs and _has_stages(stages):
        return
    if jobs:
        say(
            f"Building {len(jobs)} of {len(found)} programs from source into {cache_directory()}, once: all of them "
            "take about 9 minutes on 2 cores. Ctrl-C is safe: the next run goes on where this one stopped."
        )
    needed = max(required_go((TOOLCHAIN / family.name / "go.mod").read_text()) for family in FAMILIES)
    go = find_go(needed, cache_directory(), say)
    try:
        for number, job in enumerate(jobs, start=1):
            _build(go, job, f"[{number}/{len(jobs)}] {job.program.name} {job.family.version}", say)
        if not _has_stages(stages):
            _copy_stages(go, stages)
    except KeyboardInterrupt:
        say("Interrupted. What is finished stays, and the next run goes on from here.")
        raise


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
    for left in job.target.parent.glob(f".{job.target.name}.*partial"):
        left.unlink()
    # Of this process alone: whatever a killed run left behind cannot write into it.
    partial = job.target.with_name(f".{job.target.name}.{os.getpid()}.partial")
    log = job.target.with_name(f"{job.target.name}.build.log")
    say(f"{title}: building")
    with log.open("w") as output:
        build = subprocess.Popen(
            [*dies_with_us(), *build_command(go, job.family, job.program, partial)],
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
    source = _module(go, _family("kwok"), f"sigs.k8s.io/kwok@v{versions.KWOK}") / "kustomize" / "stage"
    _copy([source / name for name in versions.KWOK_STAGES], stages)


def _module(go: Path, family: Family, module: str) -> Path:
    """The folder of a module of a family in Go's cache."""
    command = [str(go), "mod", "download", "-json", module]
    asked = subprocess.run(
        command,
        cwd=TOOLCHAIN / family.name,
        env=_go_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_MODULE_DOWNLOAD_SECONDS,
    )
    if asked.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{asked.stdout}{asked.stderr}")
    return Path(json.loads(asked.stdout)["Dir"])


def _copy(files: Iterable[Path], target: Path) -> None:
    """Copy files into a folder, which is there with all of them or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for file in files:
        # copyfile and not copy: Go's module cache is read-only, and so would the copies be.
        shutil.copyfile(file, partial / file.name)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def _has_stages(stages: Path) -> bool:
    return all((stages / Path(name).name).exists() for name in versions.KWOK_STAGES)
