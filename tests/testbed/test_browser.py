"""Which Chromium the browser tests get, where one can be installed, and when a missing one is a failure."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from testbed import browser
from testbed.browser import (
    NotInstalled,
    Platform,
    distribution_of,
    find_chromium,
    install,
    must_have_browser,
    reason_to_skip,
)

DEBIAN = Platform("debian", is_root=True, has_apt=True)
UBUNTU = Platform("ubuntu", is_root=True, has_apt=True)
PERSON = Platform("debian", is_root=False, has_apt=True)
FEDORA = Platform("fedora", is_root=True, has_apt=False)
CI = {"CI": "true"}


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(("text", "name"), [('NAME="X"\nID=debian\n', "debian"), ('ID="ubuntu"', "ubuntu"), ("", "")])
def test_the_distribution_is_the_id_of_its_release_file(text: str, name: str) -> None:
    assert distribution_of(text) == name


def test_root_on_debian_can_install_and_nobody_else() -> None:
    assert DEBIAN.obstacle() == ""
    assert "snap" in UBUNTU.obstacle()
    assert "only root" in PERSON.obstacle()
    assert "Debian only" in FEDORA.obstacle()


def test_a_chromium_of_the_path_is_found_in_the_order_of_the_names(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path)}
    assert find_chromium(environment) is None
    chrome = program(tmp_path / "google-chrome")
    assert find_chromium(environment) == chrome
    chromium = program(tmp_path / "chromium")
    assert find_chromium(environment) == chromium
    shell = program(tmp_path / "chromium-headless-shell")
    assert find_chromium(environment) == shell


def test_a_named_program_comes_first_and_must_exist(tmp_path: Path) -> None:
    program(tmp_path / "chromium")
    own = program(tmp_path / "own")
    assert find_chromium({"PATH": str(tmp_path), browser.CHOSEN: str(own)}) == own
    missing = {"PATH": str(tmp_path), browser.CHOSEN: str(tmp_path / "missing")}
    assert find_chromium(missing) is None
    assert must_have_browser(missing, FEDORA)
    assert "missing, which is no program" in reason_to_skip(missing, FEDORA)


@pytest.mark.parametrize("here", [UBUNTU, PERSON, FEDORA])
def test_where_none_can_be_installed_the_tests_are_skipped_even_in_ci(here: Platform) -> None:
    assert not must_have_browser(CI, here)
    assert here.obstacle() in reason_to_skip(CI, here)


def test_where_one_can_be_installed_a_missing_one_is_a_failure_in_ci_only() -> None:
    assert must_have_browser(CI, DEBIAN)
    assert not must_have_browser({}, DEBIAN)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Debian without Chromium, as root, with an apt-get of the test's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PLIMSOLL_CACHE", str(tmp_path / "cache"))
    for name in ("CI", browser.CHOSEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(browser, "this_platform", lambda: DEBIAN)
    return folder


def apt(folder: Path, body: str) -> Path:
    """An apt-get that writes down its words and then does this."""
    words = folder / "words"
    (folder / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {words}\n{body}\n')
    (folder / "apt-get").chmod(0o755)
    return words


def has(bare: Path, package: str) -> str:
    """What an apt-get does that has this package only."""
    program = f"{bare}/{package}"
    made = f'echo "#!/bin/sh" > {program}; /bin/chmod +x {program}'
    return f'case "$*" in *update) ;; *" {package}") {made};; *) exit 100;; esac'


def test_the_set_up_installs_the_package_once(bare: Path) -> None:
    words = apt(bare, has(bare, "chromium-headless-shell"))
    assert install() == f"Browser tests use {bare}/chromium-headless-shell"
    assert install() == f"Browser tests use {bare}/chromium-headless-shell"
    update, installed = words.read_text().splitlines()
    assert update.endswith("update")
    assert installed.endswith("install --yes --no-install-recommends chromium-headless-shell")


def test_an_older_release_gets_the_package_with_windows(bare: Path) -> None:
    words = apt(bare, has(bare, "chromium"))
    assert install() == f"Browser tests use {bare}/chromium"
    assert [line.split()[-1] for line in words.read_text().splitlines()] == [
        "update",
        "chromium-headless-shell",
        "chromium",
    ]


def test_a_set_up_that_cannot_install_says_so_and_fails_in_ci(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = apt(bare, "exit 100")
    assert install().startswith("Browser tests will be skipped: no Chromium")
    assert len(words.read_text().splitlines()) == 1, "nothing is installed from an old list of packages"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(NotInstalled, match="no Chromium"):
        install()
