"""On a terminal of any width, every name and every figure of an answer is in the text whole."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console
from rich.text import Text

from plimsoll.cli.commands import explain
from plimsoll.cli.listing import Listing, bar, figure, name, prose, wrap
from plimsoll.cli.main import COMMANDS
from plimsoll.console.top.frame import picture
from plimsoll.domain.kubernetes_names import ObjectKey
from testbed.fleet import gpu_node
from tests.cli.conftest import Run
from tests.support.console_pages import chat, world_of
from tests.support.exported import FilledCluster, filled_office, text_from
from tests.support.model_configs import config_of
from tests.support.proposals import NOW
from tests.support.start_logs import log_0_32_0

WIDTHS = (80, 100, 120, 160)
ROOMY = 2000
"""A width at which every row has its line, so that its text has everything."""

OBJECT = "chat-for-the-customers-of-all-the-shops"
NODE = "ip-10-11-12-13.eu-central-1.compute.internal.gpu-pool-h100-blue"
TEAM = "team-of-the-people-who-serve-models"
MODEL = "an-organisation-with-a-long-name/A-Model-Of-Many-Words-And-70B-Parameters-Instruct-FP8-dynamic-v2"
TITLES = {"BUDGET", "DEPLOYMENT", "GPU", "GPUS", "GiB", "OF", "ONE", "PLACE", "TERM", "TIME", "TYPE"}
"""Titles of bars and of the first column, which a block does without."""
_BAR = re.compile(r"[WLKAGOm#.|!x]{11,}|─+")


def manifest(head: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": head, "namespace": TEAM},
        "spec": {"model": {"name": MODEL, "config": CONFIG}, "contextLength": 4096, "concurrency": 8, **spec},
    }


CONFIG = config_of("Qwen__Qwen2.5-7B-Instruct")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    assert (len(OBJECT), len(NODE)) == (39, 63)
    sick = gpu_node(NODE.replace("blue", "cold"), "H100-80GB-HBM3", 8)
    sick["spec"]["unschedulable"] = True
    nodes = [gpu_node(NODE, "H100-80GB-HBM3", 8), gpu_node("n1", "L40S", 4), sick]
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all(nodes), encoding="utf-8")
    wanted = [manifest(OBJECT), manifest(f"{OBJECT}-2", replicas=1000)]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(wanted), encoding="utf-8")
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(wanted[0]), encoding="utf-8")
    (tmp_path / "start.log").write_text(log_0_32_0(), encoding="utf-8")
    return tmp_path


@pytest.fixture
async def snapshot(tmp_path: Path) -> AsyncIterator[Path]:
    office = await filled_office(tmp_path)
    path = tmp_path / "snapshot.json"
    path.write_text(await text_from(FilledCluster(office, office.now), tmp_path), encoding="utf-8")
    yield path
    await office.passes.reader.models.close()


ANSWERS: dict[str, Sequence[str]] = {
    "capacity": ("capacity", "-f", "{files}/one.yaml", "--fleet", "{files}/fleet.yaml"),
    "estimate": ("estimate", "{files}/one.yaml"),
    "estimate of one": ("estimate", "{files}/one.yaml", "--gpu", "h100-sxm-80gb", "--why"),
    "estimate of what does not fit": ("estimate", "deepseek-ai/DeepSeek-V3", "--concurrency", "900"),
    "gpus": ("gpus",),
    "learn": ("learn", "{files}/start.log", "--gpu", "h100-sxm-80gb"),
    "plan": ("plan", "-f", "{files}/all.yaml", "--fleet", "{files}/fleet.yaml"),
    "plan with changes": (
        "plan", "-f", "{files}/all.yaml", "--fleet", "{files}/fleet.yaml", "--what-if", "-h100-sxm-80gb",
    ),
    "plan on a cluster": ("plan", "--snapshot", "{files}/snapshot.json"),
    "prices": ("prices",),
    "simulate": ("simulate", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--minutes", "3"),
}  # fmt: skip


def words_of(text: str) -> set[str]:
    """The words of a text but for bars, whose lengths depend on the width."""
    return {word for word in text.split() if not _BAR.fullmatch(word)}


def in_front(text: str) -> set[str]:
    """Titles stand in front of a block's figures, with a colon."""
    return words_of(text) | {word.removesuffix(":") for word in words_of(text)}


def names_in(document: Any, key: str = "") -> Iterator[str]:
    """The names of objects and of GPU types that a document holds, anywhere, and the price of a choice."""
    if isinstance(document, list):
        for each in document:
            yield from names_in(each, key)
    elif isinstance(document, dict):
        for inner, value in document.items():
            is_object = inner in {"name", "namespace"} and key in {"", "changes", "deployments"}
            if is_object or inner == "gpuType" or (inner, key) == ("hourlyPrice", "placement"):
                yield value
            else:
                yield from names_in(value, inner)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_has_the_same_words_at_every_width(
    run: Run, files: Path, snapshot: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert snapshot.exists()
    words = [word.format(files=files) for word in ANSWERS[answer]]

    def shown(width: int, *more: str) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        return run(*words, *more)[1]

    whole = shown(ROOMY)
    assert whole
    for width in WIDTHS:
        text = shown(width)
        assert words_of(whole) - in_front(text) <= TITLES, width
        longest = max((len(word) for word in words_of(whole)), default=0)
        assert max(map(len, text.splitlines())) <= max(width, longest + 8), width
        assert "…" not in text
        if words[0] in {"plan", "estimate"}:
            document = json.loads(shown(width, "-o", "json"))
            assert [each for each in names_in(document) if each not in text] == []


def test_the_story_of_an_object_has_the_same_words_at_every_width(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    body = chat()
    body["metadata"] |= {"name": OBJECT, "namespace": TEAM}
    body["status"]["pools"][0]["name"] = f"{OBJECT}-l4-24gb-tp1"
    monkeypatch.setattr(explain, "cluster_of", lambda _: SimpleNamespace(inference_deployment=lambda _: body))

    def shown(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        return run("explain", OBJECT, "-n", TEAM)[1]

    for width in WIDTHS:
        assert words_of(shown(ROOMY)) <= in_front(shown(width)), width


def test_the_fleet_in_a_terminal_has_the_same_words_at_every_width() -> None:
    body = chat()
    body["metadata"] |= {"name": OBJECT, "namespace": TEAM}
    world = world_of(body)

    def shown(width: int) -> str:
        out = io.StringIO()
        Console(file=out, width=width, no_color=True).print(picture(world, {}, NOW, 9), crop=False)
        return out.getvalue()

    for width in WIDTHS:
        assert words_of(shown(ROOMY)) - in_front(shown(width)) <= TITLES, width
        assert str(ObjectKey(TEAM, OBJECT)) in shown(width)


def test_a_screen_folds_a_name_that_is_wider_than_itself() -> None:
    out = io.StringIO()
    console = Console(file=out, width=30, force_terminal=True, no_color=True, legacy_windows=False)
    table = Listing((name("NODE"), figure("GPUS")))
    table.add(NODE, "8")
    with console.screen():
        console.print(table)
    assert NODE in "".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).split())


def test_a_bar_takes_what_is_left_and_goes_first() -> None:
    table = Listing((name("GPU"), bar("BUDGET", 20), figure("GiB"), prose("WHY")))
    table.add("h100", lambda length: Text("=" * length), "57.0", "it is the cheapest that fits", note="a note")

    def shown(width: int) -> str:
        out = io.StringIO()
        Console(file=out, width=width).print(table, crop=False)
        return out.getvalue()

    bars = {width: max(map(len, re.findall("=+", shown(width))), default=0) for width in (30, 50, 60, 80, 200)}
    assert sorted(bars.values()) == list(bars.values())
    assert (bars[30], bars[80], bars[200]) == (0, 20, 20)
    assert all("57.0" in shown(width) and "a note" in shown(width) for width in bars)
    assert shown(30).splitlines()[0].strip() == "h100"


@pytest.mark.parametrize("width", [1, 7, 20, 79])
def test_wrapping_breaks_between_words_alone(width: int) -> None:
    text = f"the node {NODE} of {MODEL} has  8 GPUs"
    lines = [line.plain for line in wrap(Text(text), width, 2)]
    assert " ".join(lines).split() == text.split()
    assert all(len(line) <= width or " " not in line.strip() for line in lines[:-1])


def test_every_command_with_a_table_is_here() -> None:
    without = {
        "acknowledge",
        "approve",
        "completion",
        "console",
        "fleet",
        "init",
        "models",
        "reject",
        "run",
        "explain",
        "top",
        "fetch",
    }
    assert {words[0] for words in ANSWERS.values()} | without >= set(COMMANDS)
