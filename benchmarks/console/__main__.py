"""``python -m benchmarks.console``: the pages of a large cluster, timed; a table in a few minutes.

Every time is the median of several requests to a console that has read the cluster, unless its name says otherwise.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import requests

from benchmarks.console.filling import fill, namespace_of
from testbed.console_process import ConsoleProcess
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established
from testbed.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "inbox": "/",
    "list": "/deployments",
    "list, last page": "/deployments?page=50",
    "list, search": "/deployments?q=model-04999",
    "map, strips": "/fleet",
    "map, nodes of a type": "/fleet?type=h100-sxm-80gb",
    "pressure": "/pressure",
    "accuracy": "/accuracy",
    "one deployment": f"/deployments/{namespace_of(1)}/model-00001",
}
READ_SECONDS = 180

GOALS = {"list": 1000, "map, strips": 1500, "map, nodes of a type": 1500}
"""Milliseconds that a page may take, the median of all requests."""

MOST_MIB = 256
"""Resident memory that the console may take."""


def main() -> int:
    """Fill a cluster, open the console, and print a table. Exit status 1 where a goal is missed."""
    asked = _parser().parse_args()
    with ControlPlane(lease_seconds=200) as plane, tempfile.TemporaryDirectory() as folder:
        plane.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        wait_until_established(plane.kubectl, "inferencedeployments.plimsoll.dev")
        _say(f"creating {asked.objects} deployments on {asked.nodes} nodes")
        fill(plane, asked.objects, asked.nodes)
        _say("opening the console")
        began = time.monotonic()
        with ConsoleProcess(plane.admin_kubeconfig, Path(folder)) as console, requests.Session() as session:
            session.get(console.entry, timeout=30)
            wait_until(_has_all(session, console.origin, asked.objects), READ_SECONDS, "everything read")
            rows = [("everything read", f"{time.monotonic() - began:.1f} s")]
            times = {name: _timed(session, console.origin + path, asked.times) for name, path in PAGES.items()}
            rows += [(name, taken.words) for name, taken in times.items()]
            mib = _resident_mib(console.pid)
            rows.append(("resident memory", f"{mib} MiB"))
        sys.stdout.write(
            "".join(f"| {name} | {figure} |\n" for name, figure in [("", "median"), ("---", "---"), *rows])
        )
    missed = [f"{name}: more than {most} ms" for name, most in GOALS.items() if times[name].median >= most]
    missed += [f"resident memory: more than {MOST_MIB} MiB"] if mib >= MOST_MIB else []
    for words in missed:
        _say(f"a goal is missed: {words}")
    return 1 if missed else 0


@dataclass(frozen=True, slots=True)
class Taken:
    """The median of a page's times, in milliseconds, and all that the table says of them."""

    median: float
    words: str


def _has_all(session: requests.Session, origin: str, objects: int) -> Callable[[], bool]:
    wanted = f"{objects:,} in all"

    def has_all() -> bool:
        listed = session.get(f"{origin}/deployments", timeout=60).text
        return wanted in listed and "for the first time" not in listed

    return has_all


def _timed(session: requests.Session, url: str, times: int) -> Taken:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        answer = session.get(url, timeout=60)
        found.append(time.perf_counter() - began)
        answer.raise_for_status()
    median, longest = statistics.median(found) * 1000, max(found) * 1000
    return Taken(median, f"{median:.0f} ms, longest {longest:.0f} ms, {len(answer.content) // 1024} KiB")


def _resident_mib(process: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--objects", type=int, default=5000, metavar="N")
    parser.add_argument("--nodes", type=int, default=1250, metavar="N")
    parser.add_argument("--times", type=int, default=7, metavar="N", help="requests for each figure")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
