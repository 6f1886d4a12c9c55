"""The Chromium of the browser tests: ``python -m testbed.browser install``.

A browser of the system is used where there is one; one that has no windows at all comes first, because it takes a third
less processor time. Else Debian's package is installed, if we may do that. Else the browser tests are skipped, with the
reason that this module gives.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.cache import cache_directory

CHOSEN = "PLIMSOLL_CHROMIUM"
"""The environment variable that names another Chromium."""

_NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable")
_PACKAGES = ("chromium-headless-shell", "chromium")
"""Debian's, the one to be preferred first; releases before 12 have the second only."""
_APT = ("apt-get", "--quiet=2", "--option=DPkg::Lock::Timeout=300")
"""Another program that installs something may hold dpkg's lock: wait for it, 300 s at most."""

_RELEASE_FILE = Path("/etc/os-release")


class NotInstalled(RuntimeError):
    """Chromium should have been installed here, and was not; the message says why."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The facts that decide whether Debian's package can be installed."""

    distribution: str
    """The ``ID`` of ``/etc/os-release``, e.g. ``debian``; empty where there is none."""
    is_root: bool
    has_apt: bool

    def obstacle(self) -> str:
        """The reason why no Chromium can be installed here; empty where one can."""
        if self.distribution == "ubuntu":
            return "Ubuntu's package chromium only installs a snap: install Google Chrome instead"
        if self.distribution != "debian" or not self.has_apt:
            return "the set-up installs Chromium on Debian only: install it with the means of this system"
        if not self.is_root:
            return "only root can install it: apt-get install --no-install-recommends chromium"
        return ""


def this_platform(release: Path = _RELEASE_FILE) -> Platform:
    """The platform that this process runs on."""
    name = ""
    if platform.system() == "Linux" and release.is_file():
        name = distribution_of(release.read_text())
    return Platform(name, is_root=os.geteuid() == 0, has_apt=shutil.which("apt-get") is not None)


def distribution_of(release: str) -> str:
    """The ``ID`` in the text of an ``/etc/os-release``."""
    fields = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    return fields.get("ID", "").strip("\"'").lower()


def find_chromium(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The executable of ``$PLIMSOLL_CHROMIUM``, else the first known name in the path; None where there is none."""
    if chosen := environment.get(CHOSEN):
        return Path(chosen) if os.access(chosen, os.X_OK) else None
    found = (shutil.which(name, path=environment.get("PATH")) for name in _NAMES)
    return next((Path(path) for path in found if path), None)


def must_have_browser(environment: Mapping[str, str], here: Platform) -> bool:
    """Whether a missing browser is a failure: in CI, wherever the set-up can install one, and where one is named."""
    in_ci = environment.get("CI", "").lower() in ("1", "true")
    return bool(environment.get(CHOSEN)) or (in_ci and not here.obstacle())


def reason_to_skip(environment: Mapping[str, str], here: Platform) -> str:
    """The reason that the skipped tests give."""
    if chosen := environment.get(CHOSEN):
        return f"{CHOSEN} is {chosen}, which is no program"
    return f"no Chromium: {here.obstacle() or 'run python -m testbed.browser install'}"


def install() -> str:
    """Install Chromium where that is possible and needed; returns a line for the person who waits.

    Raises:
        NotInstalled: it should be here now, and is not.
    """
    here = this_platform()
    if find_chromium() is None and not os.environ.get(CHOSEN) and not here.obstacle():
        with _only_one():
            _install_package()
    if found := find_chromium():
        return f"Browser tests use {found}"
    reason = reason_to_skip(os.environ, here)
    if must_have_browser(os.environ, here):
        raise NotInstalled(reason)
    return f"Browser tests will be skipped: {reason}"


@contextmanager
def _only_one() -> Iterator[None]:
    """Let two set-ups wait for each other: apt-get update does not wait by itself."""
    with (cache_directory() / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_package() -> None:
    if find_chromium() is not None:
        return  # the set-up that we waited for has installed it
    print("Installing Debian's package of Chromium for the browser tests, once", flush=True)
    installing = (("install", "--yes", "--no-install-recommends", package) for package in _PACKAGES)
    if _apt("update") and not any(_apt(*words) for words in installing):
        print("Debian offers none of these packages", file=sys.stderr)


def _apt(*words: str) -> bool:
    """Whether apt-get has done it; it says itself why not."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run([*_APT, *words], env=environment, check=False).returncode == 0:
        return True
    print(f"apt-get {' '.join(words)} failed: see above", file=sys.stderr)
    return False


def main() -> int:
    """Do what the command line says. Exit status 1 where a browser must be here and is not."""
    parser = argparse.ArgumentParser(prog="python -m testbed.browser", description=__doc__)
    parser.add_argument("command", choices=["install"])
    parser.parse_args()
    try:
        print(install())
    except NotInstalled as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
