"""What the documentation says is what the code does: commands, paths, limits and figures.

A figure on a page of ``STATED`` is one of these, and a new one without a row is a failure:

- it follows from the code: a row of ``FROM_CODE`` makes the words that must stand on the page;
- somebody measured it: a row of ``MEASURED`` says when and with which command;
- it is no figure: ``NO_FIGURES``.

Figures of other pages are free to have rows, too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml

from benchmarks.accuracy.predictors import PEERS
from benchmarks.mutants.__main__ import GATE_SECONDS
from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.adapters.cluster.client import WRITES_AT_ONCE, WRITES_AT_ONCE_PER_NAMESPACE
from plimsoll.adapters.cluster.small_pages import PAGE_BYTES
from plimsoll.adapters.prometheus.engine_series import MOST_SERIES
from plimsoll.adapters.prometheus.pod_scrape import (
    LONGEST_PAUSE_SECONDS,
    LONGEST_SERIES,
    MAX_PAGE_BYTES,
    MOST_CHARACTERS,
    SCRAPE_SECONDS,
    SCRAPE_TIMEOUT_SECONDS,
)
from plimsoll.adapters.prometheus.prometheus import MAX_BODY_BYTES, MOST_KEYS, PAST_TIMEOUT_SECONDS, SMALLER_SECONDS
from plimsoll.api import bounds
from plimsoll.api.v1alpha1.options import MOST_WINDOWS
from plimsoll.api.v1alpha1.spec import InferenceDeploymentSpec
from plimsoll.app.election.lease_times import LONGEST_LEASE_SECONDS
from plimsoll.app.health import FAILED_PASSES, HOPELESS_SECONDS, STALLED_SECONDS
from plimsoll.app.live import gpu_watch, season_watch, signal_watch
from plimsoll.app.live.sample_memory import WHOLE_SECONDS
from plimsoll.app.live.wanted import HISTORY_SECONDS
from plimsoll.app.lookups import claim_cache, image_cache
from plimsoll.app.plan import planning_time
from plimsoll.app.plan.rendered import UNWRITTEN_SECONDS
from plimsoll.app.planner import RESTING_SECONDS
from plimsoll.app.review.hypothetical import CPUS_PER_GPU, MEMORY_PER_GPU
from plimsoll.app.settings import Settings
from plimsoll.app.shell import DEAF_SECONDS, HOPELESSLY_DEAF_SECONDS, LIST_TROUBLE_SECONDS, QUOTA_SECONDS
from plimsoll.app.watch import prices, sizes
from plimsoll.cli.answers.advice import MOST_TIMES
from plimsoll.cli.changes.changes import LEAST_CONTEXT
from plimsoll.cli.main import COMMANDS
from plimsoll.cli.process import EXIT_BAD_INPUT, EXIT_PLACED, EXIT_UNPLACED
from plimsoll.cli.starts.logged_start import MOST_BYTES, MOST_LINES
from plimsoll.console import streams
from plimsoll.console.guards.door import TOKEN_BYTES
from plimsoll.console.guards.people import IDLE_SECONDS
from plimsoll.console.guards.posts import LARGEST_FORM
from plimsoll.console.sessions import MOST_PEOPLE
from plimsoll.console.sources import live as live_source
from plimsoll.console.sources.commands import AT_ONCE, RUN_SECONDS
from plimsoll.console.sources.informer_cache import WATCH_SECONDS
from plimsoll.console.views.fleet import NODES_AT_ONCE
from plimsoll.console.views.load.live_use import STALE_SECONDS
from plimsoll.console.views.paging import PAGE_SIZE
from plimsoll.console.views.world import SILENT_SECONDS
from plimsoll.decision.surroundings import PROMISE_SECONDS
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.base import Feature
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.vllm.memory.laws.laws import NEWEST_VERSION, OLDEST_VERSION
from plimsoll.engines.vllm.releases import support
from plimsoll.engines.vllm.releases.options import SINCE
from plimsoll.facts.prices.remarks import OLDEST_DAYS
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.placement.advice import suggestions
from plimsoll.placement.advice.suggestions import MOST_SUGGESTIONS
from plimsoll.placement.demands import clocks, failed_moves
from plimsoll.placement.demands.draining import LEAST_SECONDS, LONGEST_OVER_MEAN, MOST_SECONDS
from plimsoll.placement.demands.failed_moves import FIRST_PAUSE_SECONDS
from plimsoll.placement.demands.rehoming import REMEMBERED_SECONDS
from plimsoll.placement.options.candidates import PIPELINE_STAGES, TENSOR_PARALLEL_DEGREES, splits_for
from plimsoll.placement.options.engine_limits import STEP_SIZES
from plimsoll.placement.options.total_load import MOST_SIZES
from plimsoll.placement.proposing.proposals import MOST_WAITING
from plimsoll.placement.solvers.fleetwide import MOST_CHOICES_OF_SIZES
from plimsoll.rebalance.inbox import GRACE_SECONDS, LIFE_SECONDS, MOST_ANSWERED, MOST_PROPOSALS
from plimsoll.rebalance.law.price import WORTH, Stakes
from plimsoll.rebalance.law.wishes import NEEDED_KV_USE, TOLERANCE
from plimsoll.rebalance.places.better import LEAST_SAVING
from plimsoll.rebalance.signals import forecast, traffic
from plimsoll.rebalance.signals.load import MISSED_SCRAPES, OLDEST_SAMPLE_SECONDS
from plimsoll.rebalance.state.decisions import LoopDecision
from plimsoll.rebalance.state.memory import (
    LEAST_STUCK_SECONDS,
    LONGEST_GAP_SECONDS,
    STUCK_STARTUPS,
)
from plimsoll.simulation.run import MANY_REPLICAS, MOST_REPLICAS, USUAL_SCRAPE_SECONDS
from plimsoll.simulation.workload import MOST_MINUTES, MOST_REQUESTS
from plimsoll.status.record.decisions import MOST_DECISIONS
from testbed.fleet import mixed_fleet
from testbed.own_programs import SUITABLE
from testbed.played_router import METRICS_PORT
from testbed.versions import FAMILIES
from tests.support.documented import ROOT, Written, commands, parts, understood, written
from tests.support.planning import request

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
STATED = ("README.md", "SCOPE.md", "CONTRIBUTING.md", "docs/commands.md", "docs/demo.md")
PAGES = (
    "README.md",
    "SCOPE.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "charts/plimsoll/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]),
)


def _use(startup_seconds: float) -> float:
    """The part from which the arrivals of five balanced replicas, counted over two minutes, ask for one more."""
    return Stakes(WORTH[Objective.BALANCED], startup_seconds).use(5.0, (5.0 / 120) ** 0.5 / 5.0)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def flat(words: str) -> str:
    """The same words on one line, without marks of emphasis."""
    return " ".join(words.replace("**", "").split())


# Commands and paths

CALLS = [call for page in PAGES for call in written(page)]
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_the_program_understands_every_call_of_itself(call: Written) -> None:
    try:
        understood(call)
    except click.UsageError as error:
        pytest.fail(error.format_message())


def test_a_call_that_nobody_could_type_is_found() -> None:
    for words in (("estimate", "MODEL", "--gpus", "l4"), ("plans",), ("plan", "-o", "toml"), ("prices", "verify")):
        with pytest.raises(click.UsageError):
            understood(Written("page", words, is_whole=True))
    understood(Written("page", ("plan", "--snapshot"), is_whole=False))
    with pytest.raises(click.UsageError):
        understood(Written("page", ("plan", "--snapshot"), is_whole=True))


@pytest.mark.parametrize("page", PAGES)
def test_every_target_of_make_exists(page: str) -> None:
    assert targets(text(page)) - TARGETS == set()


def targets(page: str) -> set[str]:
    """Targets that a page names: at the beginning of a command, or between backticks."""
    inside, outside = parts(page)
    lines = [*commands(inside), *re.findall(r"`([^`]+)`", outside)]
    return {word for line in lines if (found := re.match(r"make ((?:[a-z-]+ ?)+)", line)) for word in found[1].split()}


def test_targets_of_pages_are_seen() -> None:
    assert targets("```\nmake try\n$ make demo ARGS=x\n```\nmake room with `make crds goldens`, `make a`.") == {
        "try", "demo", "crds", "goldens", "a",
    }  # fmt: skip


PLACES = ("", "operator/plimsoll", "operator/plimsoll/engines/vllm/memory", "operator/plimsoll/rebalance")
"""Folders that a path of a page may begin in, besides that of the page."""


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_repository_has_an_end(page: str) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)|src(?:set)?=\"([^\"]+)\"", text(page)):
        path, _, anchor = (target[0] or target[1]).partition("#")
        if "://" in path or path.startswith("mailto:"):
            continue
        end = (ROOT / page).parent / path if path else ROOT / page
        if not end.exists() or (anchor and anchor not in anchors(end)):
            broken.append("".join(target))
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", each)).strip().lower().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("examples/")])
def test_every_path_within_the_repository_exists(page: str) -> None:
    spans = re.findall(r"`([\w.-]+(?:/[\w.*-]+)+/?)`", parts(text(page))[1])
    tops = {path.name for path in ROOT.iterdir()} | {path.name for path in (ROOT / "operator/plimsoll").iterdir()}
    assert [span for span in spans if span.partition("/")[0] in tops - {"build", "dist"} and not exists(span)] == []


def exists(span: str) -> bool:
    return any(next((ROOT / place).glob(span.rstrip("/")), None) is not None for place in PLACES)


# Public words

OF_OTHERS = frozenset(
    {"CrossNamespacePodAffinity", "HttpOnly", "LlamaForSequenceClassification", "OwnerReferencesPermissionEnforcement"}
)
"""Words of browsers, Kubernetes and models that no file of ours needs."""

SOURCES = ("operator/**/*.py", "operator/**/*.html", "testbed/**/*.py", "benchmarks/**/*.py", "charts/**/*.yaml")


@pytest.fixture(scope="module")
def words_of_the_code() -> frozenset[str]:
    found = (path for each in SOURCES for path in ROOT.glob(each))
    return frozenset(word for path in found for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("examples/")])
def test_every_word_of_a_page_is_a_word_of_the_code(page: str, words_of_the_code: frozenset[str]) -> None:
    assert capitalised(parts(text(page))[1]) - words_of_the_code - OF_OTHERS == set()


def capitalised(prose: str) -> set[str]:
    """Words such as reasons, conditions and modes: capitalised, alone between backticks."""
    return set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]*)*)`", prose))


def test_capitalised_words_are_seen() -> None:
    assert capitalised("`TooSlow`, `make room`, `spec.mode` and `Recommend`, but neither `UTC` nor Auto") == {
        "TooSlow", "Recommend",
    }  # fmt: skip


# The manifest at the top, and tables


def test_the_first_manifest_is_one_that_the_api_takes() -> None:
    manifest = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```", text("README.md"), re.MULTILINE | re.DOTALL)[1])  # type: ignore[index]
    assert manifest["kind"] == "InferenceDeployment"
    InferenceDeploymentSpec.model_validate(manifest["spec"])


def test_the_table_of_installations_names_extras_and_commands_that_exist() -> None:
    rows = re.findall(r"^\| `pip install '?\.(?:\[(\w+)\])?'?` \| (.+) \|$", text("README.md"), re.MULTILINE)
    assert {extra for extra, _ in rows} == {"", *PYPROJECT["project"]["optional-dependencies"]}
    named = {word.split()[0] for _, what in rows for word in re.findall(r"`([a-z][^`]*)`", what)}
    assert named - {"config.json"} <= set(COMMANDS)
    assert set(COMMANDS) - named == {"capacity", "learn", "run"}, "the table says these in other words"


def test_the_image_that_is_built_first_is_the_one_that_the_chart_runs() -> None:
    chart, values = (yaml.safe_load(text(f"charts/plimsoll/{name}.yaml")) for name in ("Chart", "values"))
    (registry,) = re.findall(r"--set image\.registry=(\S+)", text("README.md"))
    image = f"{registry}/{values['image']['repository']}:{chart['appVersion']}"
    assert f"podman build -t {image} . && podman push {image}\n" in text("README.md")


# ARCHITECTURE.md

ARCHITECTURE = text("ARCHITECTURE.md")


def test_the_tree_of_layers_has_every_folder_of_the_package_and_no_other() -> None:
    shown = re.findall(r"^  ([a-z]+)/", parts(ARCHITECTURE)[0], re.MULTILINE)
    assert sorted(shown) == sorted(path.parent.name for path in (ROOT / "operator/plimsoll").glob("*/__init__.py"))


def test_the_layers_are_as_many_as_are_said_to_have_no_clock() -> None:
    (core,) = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if "performs no I/O" in each["name"])
    *first, last, another = (name.removeprefix("plimsoll.") for name in core["source_modules"])
    shown = re.findall(r"^  ([a-z]+)/", parts(ARCHITECTURE)[0], re.MULTILINE)
    assert sorted(shown[: len(first)]) == sorted(first)
    assert f"the first {in_words(len(first))} layers, `{another}` and `{last}` may not import a clock" in flat(
        ARCHITECTURE
    )


def test_the_answers_of_the_live_loop_are_those_of_the_tree() -> None:
    assert f"-> {' | '.join(each.__name__ for each in get_args(LoopDecision))}\n" in ARCHITECTURE


def test_the_table_of_threads_has_those_that_the_operator_starts() -> None:
    table = ARCHITECTURE.partition("## Threads")[2].partition("\n## ")[0]
    shown = {name for cell in re.findall(r"^\| ([a-z, -]+) \|", table, re.MULTILINE) for name in cell.split(", ")}
    sources = [
        path.read_text("utf-8")
        for each in ("adapters", "app")
        for path in (ROOT / "operator/plimsoll" / each).rglob("*.py")
    ]
    starts = re.compile(r'(?:ThreadPoolExecutor\([^"\n]*|threading\.Thread\([^"\n]*)"([a-z-]+)"')
    started = {name for source in sources for name in starts.findall(source)}
    assert shown - {"thread", "event loop", "metrics"} == started


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_module_that_is_named_without_its_folder_exists(page: str) -> None:
    folders = ("operator", "testbed", "benchmarks", "scripts", "tests", "calculator")
    names = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"`([a-z_0-9]+\.py)`", text(page))) - names == set()


# Figures


def dependencies() -> str:
    count = len(PYPROJECT["project"]["dependencies"])
    names = [re.split(r"[<>=]", each)[0] for each in PYPROJECT["project"]["dependencies"]]
    shown = [{"pyyaml": "PyYAML"}.get(name, name) for name in names]
    return f"{in_words(count)} dependencies, without any client of Kubernetes: {', '.join(shown[:-1])} and {shown[-1]}"


def minor(version: EngineVersion) -> str:
    return ".".join(map(str, version[:2]))


def times(factor: int) -> str:
    return {2: "twice"}[factor]


def in_words(count: int) -> str:
    return ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")[count]


def either(numbers: Iterable[object], word: str = "and") -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} {word} {last}"


def python_release() -> str:
    return f"Python {PYPROJECT['project']['requires-python'].removeprefix('>=')} or newer"


def fake_nodes() -> str:
    names = {"h100": "H100", "a100": "A100-80GB", "l40s": "L40S", "l4": "L4", "mi300x": "MI300X"}
    held = {
        node["metadata"]["name"].rpartition("-")[0]: int(count)
        for node in mixed_fleet()
        for resource, count in node["status"]["capacity"].items()
        if resource.endswith("/gpu")
    }
    nodes = ", ".join(f"{held[name]} x {title}" for name, title in names.items())
    return f"{in_words(len(held))} fake GPU nodes ({nodes})"


def programs() -> str:
    return f"builds these {in_words(sum(len(family.programs) for family in FAMILIES))} programs"


def suitable() -> str:
    newest = {name: ".".join(map(str, low)) for name, (low, _) in SUITABLE.items()}
    etcd = [f"{SUITABLE['etcd'][0][0]}.{minor}" for minor in range(SUITABLE["etcd"][0][1], SUITABLE["etcd"][1][1])]
    return (
        f"(Kubernetes {newest['kubernetes']}, etcd {' or '.join(etcd)}, Helm {newest['helm']} or a newer Helm "
        f"{SUITABLE['helm'][0][0]}, Prometheus {newest['prometheus']} or newer, KWOK {newest['kwok']})"
    )


def statuses() -> str:
    return (
        f"Exit status {EXIT_PLACED} means that all are placed, {EXIT_UNPLACED} that some cannot be placed, "
        f"{EXIT_BAD_INPUT} that some input cannot be used"
    )


def releases() -> str:
    usual, other = (each.title for each in ENGINES.values())
    span = f"{minor(OLDEST_VERSION)} to {minor(NEWEST_VERSION)}"
    return f"{usual}, and {other} since {ENGINES['sglang'].oldest}. {usual}'s memory law is known from release {span}."


def newer_release() -> str:
    return f"A newer one is counted as {minor(NEWEST_VERSION)}"


def patience() -> int:
    set_by_tests = re.search(r'setdefault\(PATIENCE, "(\d+)"\)', text("tests/conftest.py"))
    assert set_by_tests
    return int(set_by_tests[1])


FROM_CODE: Mapping[str, tuple[Callable[[], str], ...]] = {
    "README.md": (
        python_release,
        dependencies,
        lambda: PYPROJECT["project"]["license"],
    ),
    "CONTRIBUTING.md": (
        python_release,
        lambda: f"multiplies it by {in_words(patience())} under pytest",
        lambda: f"It takes {in_words(int(GATE_SECONDS / 60))} minutes at most",
    ),
    "docs/commands.md": (
        statuses,
        lambda: f"beside {in_words(len(PEERS))} other tools",
    ),
    "docs/demo.md": (
        fake_nodes,
        programs,
        suitable,
        lambda: f"The played router needs port {METRICS_PORT}",
    ),
    "SCOPE.md": (
        releases,
        newer_release,
        lambda: f"For {minor(NEWEST_VERSION)}, of which no start is known, and for newer ones",
        lambda: f"Tensor parallel {either(TENSOR_PARALLEL_DEGREES)} are judged",
        lambda: f"Pipeline stages ({either(PIPELINE_STAGES, 'or')})",
        lambda: f"{either([each for each in TENSOR_PARALLEL_DEGREES if each > 1], 'or')} data-parallel engines",
    ),
    "ARCHITECTURE.md": (
        lambda: (
            f"Up to {WRITES_AT_ONCE} writes are on their way at the same time, {WRITES_AT_ONCE_PER_NAMESPACE} of them"
        ),
        lambda: (
            f"A status that waits for its turn to be written is good for {in_words(int(UNWRITTEN_SECONDS / 60))} min"
        ),
        lambda: f"they do not go back within {({3600: 'the hour'})[REMEMBERED_SECONDS]}",
        lambda: f"and at least once {({60.0: 'a minute'})[RESTING_SECONDS]}",
        lambda: (
            f"A sample older than {OLDEST_SAMPLE_SECONDS:.0f} s, or than {MISSED_SCRAPES} scrapes if that is longer"
        ),
        lambda: f"it ends if the API server refuses them for {({60: 'a minute'})[PROMISE_SECONDS]}",
    ),
    "docs/console.md": (
        lambda: f"more than {SILENT_SECONDS:.0f} seconds ago, every page says that the operator is silent",
        lambda: f"With more than {NODES_AT_ONCE} nodes",
        lambda: f"pages of {PAGE_SIZE}",
        lambda: f"after {STALE_SECONDS:.0f} seconds they are grey",
        lambda: f"at most {MOST_PEOPLE} people at the same time",
        lambda: f"who asked for nothing in {IDLE_SECONDS / 60:.0f} minutes",
        lambda: f"The token has {8 * TOKEN_BYTES} bits",
        lambda: f"A watch lasts {WATCH_SECONDS} seconds",
        lambda: f"At most {streams.MOST} event streams, {streams.MOST_OF_ONE} of one person",
        lambda: f"A form has at most {LARGEST_FORM // MIB} MiB",
        lambda: f"at most {in_words(AT_ONCE)} at a time, and is ended after {RUN_SECONDS:.0f} seconds",
    ),
    "docs/approvals.md": (
        lambda: f"it stands for {LIFE_SECONDS / 3600:.0f} hours",
        lambda: (
            f"the loop has not made it for {GRACE_SECONDS / 60:.0f} minutes. There are at most {MOST_PROPOSALS} of one"
        ),
        lambda: f"The last {MOST_ANSWERED} answered approvals of a deployment are kept",
    ),
    "docs/estimate.md": (
        lambda: f"for at most {in_words(MOST_TIMES)} times the price of the cheapest in servers",
        lambda: f"a shorter context ({LEAST_CONTEXT} tokens at least)",
    ),
    "docs/learn.md": (
        lambda: f"of release {minor(OLDEST_VERSION)} to {minor(NEWEST_VERSION)}",
        lambda: (
            f"At most {MOST_BYTES // MIB} MiB or {'a million' if MOST_LINES == 10**6 else MOST_LINES} lines are read"
        ),
    ),
    "docs/memory-model.md": (
        lambda: f"read from: {minor(OLDEST_VERSION)} to {minor(NEWEST_VERSION)}.",
        lambda: (
            f"which of {len(support._classes())} classes and {len(support._methods())} quantization methods"  # noqa: SLF001
        ),
        lambda: f"all releases from {support._OLDEST_READ} to {support.NEWEST_READ}",  # noqa: SLF001
    ),
    "docs/placement.md": (
        lambda: f"Tensor parallelism over {either(TENSOR_PARALLEL_DEGREES)} GPUs",
        lambda: f"vLLM {minor(SINCE[Feature.DATA_PARALLEL])} or newer (`DataParallelNotSupported`)",
        lambda: f"at most {in_words(MOST_SIZES)}: the cheapest ones",
        lambda: f"have more than {MOST_CHOICES_OF_SIZES:,} choices of GPU type and split",
        lambda: f"There are at most {in_words(MOST_SUGGESTIONS)}.",
        lambda: f"at most {suggestions.MOST_SEARCHES} different placements",
        lambda: f"The first {in_words(MOST_WAITING)} deployments that wait get proposals",
        lambda: f"`status.decisions` has the last {in_words(MOST_DECISIONS)} of a deployment",
        lambda: f"The claims are listed every {QUOTA_SECONDS:.0f} s",
        lambda: f"A new deployment waits for that, for {image_cache.WAIT_SECONDS:.0f} s at most",
        lambda: (
            f"is used for {in_words(int(claim_cache.BOUND_SECONDS / 60))} minutes, and for "
            f"{claim_cache.UNBOUND_SECONDS:.0f} seconds while pods wait"
        ),
    ),
    "docs/plan.md": (lambda: f"each has {CPUS_PER_GPU} CPUs and {MEMORY_PER_GPU // GIB} GiB of memory for each GPU",),
    "docs/prices.md": (
        lambda: f"an edit counts within {in_words(int(prices.PAUSE_SECONDS))} seconds",
        lambda: f"after {OLDEST_DAYS} days the price is called old",
    ),
    "docs/prometheus.md": (
        lambda: f"all metrics of up to {MOST_KEYS} pods",
        lambda: f"asks about fewer for {in_words(int(SMALLER_SECONDS / 60))} minutes",
        lambda: f"of those older than {WHOLE_SECONDS} s what is needed to have one a minute",
        lambda: f"covers {HISTORY_SECONDS // 60} minutes",
        lambda: f"what is new every {in_words(int(season_watch.EVERY_SECONDS / 60))} minutes",
        lambda: f"it waits for {season_watch.PATIENCE_SECONDS / 60:.0f} minutes",
        lambda: f"with a limit of {PAST_TIMEOUT_SECONDS:.0f} s",
        lambda: f"pods every {SCRAPE_SECONDS:.0f} s itself",
        lambda: f"A pod has {SCRAPE_TIMEOUT_SECONDS:.0f} s and {MAX_PAGE_BYTES // MIB} MiB for its page",
        lambda: f"up to every {LONGEST_PAUSE_SECONDS / 60:.0f} minutes",
        lambda: (
            f"more than {MOST_SERIES:,} series of the names below or {MOST_CHARACTERS:,} characters of them, or with "
            f"one longer than {LONGEST_SERIES:,} characters"
        ),
        lambda: (
            f"by one query {({60.0: 'a minute'})[gpu_watch.YOUNG_SECONDS]} for each deployment, or one in "
            f"{in_words(int(gpu_watch.PATIENCE_SECONDS / 60))} minutes"
        ),
        lambda: f"They are kept for {live_source.YOUNG_SECONDS:.0f} s, for all tabs",
        lambda: f"holds a page for {in_words(int(2 * live_source.PATIENCE_SECONDS))} seconds at most",
        lambda: f"the {PAGE_SIZE} deployments that are shown",
    ),
    "docs/rebalancing.md": (
        lambda: (
            f"{_use(100):.0%} if a start-up takes 100 s, {_use(300):.0%} if it takes 300 s, and "
            f"{_use(600):.0%} if it takes 600 s"
        ).replace("%", " %"),
        lambda: (
            f"{WORTH[Objective.BALANCED]:g} times what it costs to serve it, {WORTH[Objective.INTERACTIVE]:g} times"
        ),
        lambda: f"KV cache in use over {100 * NEEDED_KV_USE:.0f} % of a replica's",
        lambda: f"a whole number by less than {100 * TOLERANCE:.0f} %",
        lambda: f"saves at least {100 * LEAST_SAVING:.0f} % of the bill",
        lambda: f"has up to {in_words(MOST_WINDOWS)} windows",
        lambda: f"The default is {Settings().rebalancing_moves_per_hour}, one in five minutes",
        lambda: f"{LEAST_SECONDS} s to {MOST_SECONDS} s",
        lambda: (
            f"for {FIRST_PAUSE_SECONDS / 3600:.0f} hours, and for twice as long with each further failure, "
            f"{failed_moves.LONGEST_PAUSE_SECONDS / 86_400:.0f} days at most"
        ),
        lambda: f"The last {in_words(failed_moves.MOST_REMEMBERED)} failures of a week are kept",
        lambda: (
            f"{in_words(int(clocks.STARTUPS))} times the expected start-up, and {clocks.LEAST_SECONDS / 60:.0f} "
            "minutes at least"
        ),
        lambda: f"the likely longest answer: {LONGEST_OVER_MEAN:.0f} times the mean answer",
        lambda: (
            f"starts for {STUCK_STARTUPS} times as long "
            f"(and {({60.0: 'a minute'})[LEAST_STUCK_SECONDS]} at least) is no supply"
        ),
        lambda: (
            f"or {either((round(each / 60) for each in traffic.LENGTHS_SECONDS), 'or')} minutes: the longest time from "
            f"which no shorter one with {traffic.ENOUGH_FINISHED} answers differs"
        ),
        lambda: f"the longest start-up seen is {forecast.LEAST_STARTUP_SECONDS:.0f} s or more",
        lambda: (
            f"the last {in_words(forecast.DAYS)} days in steps of {in_words(int(forecast.STEP_SECONDS / 60))} minutes"
        ),
        lambda: f"Of each, {100 * forecast.KNOWN_SHARE:.0f} % of the steps around this time of day must be known",
        lambda: f"with {either(f'{each:,}' for each in STEP_SIZES)} tokens",
        lambda: f"a hole of {LONGEST_GAP_SECONDS:.0f} s in the scrapes",
    ),
    "docs/reliability.md": (
        lambda: f"before it takes over: whole seconds, at most {LONGEST_LEASE_SECONDS}.",
        lambda: f"work without a beat for {STALLED_SECONDS:.0f} s is named and fails",
        lambda: f"Passes raise: {in_words(FAILED_PASSES)} in a row, for {in_words(int(HOPELESS_SECONDS / 60))} minutes",
        lambda: f"A kind cannot be listed for {LIST_TROUBLE_SECONDS:.0f} s",
        lambda: (
            f"A watch owes a change for {in_words(int(DEAF_SECONDS / 60))} minute, for "
            f"{in_words(int(HOPELESSLY_DEAF_SECONDS / 60))}"
        ),
    ),
    "docs/runbooks.md": (
        lambda: f"lists each kind every {Settings().relist_seconds / 60:.0f} minutes",
        lambda: f"After {in_words(int(HOPELESS_SECONDS / 60))} minutes of failures `/healthz` fails too",
    ),
    "docs/security.md": (
        lambda: (
            f"more than {bounds.MOST_CHARACTERS:,} characters, {bounds.MOST_MEMBERS:,} members or {bounds.MOST_LEVELS} "
            "levels"
        ),
        lambda: (
            f"fill {sizes.MOST_OF_NAMESPACE // MIB} MiB at most, those of all namespaces {sizes.MOST_OF_ALL // MIB} MiB"
        ),
        lambda: f"Lists are read in pages of {PAGE_BYTES // MIB} MiB",
        lambda: f"A pass gives {planning_time.SECONDS} CPU seconds to deployments",
        lambda: f"planned every {planning_time.LONGEST_PAUSE_SECONDS:.0f} s at the latest",
        lambda: f"Where {planning_time.MOST_UNWRITTEN} decisions of a namespace wait to be written",
        lambda: (
            f"{in_words(image_cache.AT_ONCE)} images at a time, {in_words(image_cache.PER_NAMESPACE)} of them of one "
            f"namespace, and {image_cache.MOST_OF_NAMESPACE} images of a namespace"
        ),
        lambda: (
            f"alone, by {in_words(signal_watch.FAILING)} threads of {in_words(signal_watch.READERS)} at most, and then "
            f"rests {in_words(int(signal_watch.LONG_REST))} times as long as that took. A namespace is not read again "
            f"for {times(int(signal_watch.REST))} the CPU time"
        ),
        lambda: f"has {MAX_BODY_BYTES // MIB} MiB at most, for {MOST_KEYS} pods",
    ),
    "docs/simulator.md": (
        lambda: f"at most {MOST_REQUESTS:,} requests, {MOST_MINUTES:.0f} minutes and {MOST_REPLICAS} replicas",
        lambda: f"The default of {FIRST_STARTUP_SECONDS:.0f} s",
        lambda: (
            f"every {USUAL_SCRAPE_SECONDS:.0f} s, and every {2 * USUAL_SCRAPE_SECONDS:.0f} s if there may be more "
            f"than {MANY_REPLICAS} replicas"
        ),
    ),
}
"""By page: what makes the words that must stand on it."""

MEASURED: Mapping[str, Mapping[str, str]] = {
    "README.md": {
        "Try it: one minute, no cluster": "the figure below, and time to read",
        "it took 21 seconds on 2 cores with an empty pip cache": "2026-11-22: time make try, in a fresh clone",
        "in 15 minutes on 2 cores": "as in CONTRIBUTING.md",
    },
    "CONTRIBUTING.md": {
        "took 15 minutes on 2 cores": "2026-12-01: in .ci/run on a clean clone, by pytest: 306 s and 575 s",
        "5 for what needs no cluster, and 10 on a cluster": "the same run",
        "half a core, it took 49 minutes": "2026-11-26: --cores 0.5, test-unit 610 s, test-apart 2,326 s",
        "The wheel of 0.32.0 gives so exactly": "2026-11-28: its parser.json made in both ways, compared",
    },
    "docs/demo.md": {
        "It takes ten minutes once, then a minute and a half": "the figure below, and the story's own clock",
        "about 9 minutes on 2 cores": "2026-11-21: time make build, with an empty $PLIMSOLL_CACHE",
    },
}
"""By page: figures that somebody measured, each with the day and the command."""

NO_FIGURES: Mapping[str, tuple[str, ...]] = {
    "CONTRIBUTING.md": ("The goal is 90 %",),
    "docs/commands.md": ("between which two figures the truth lies",),
}
"""By page: words that look like a figure and are none."""

LOOKS_LIKE_A_FIGURE = re.compile(
    r"(?<![A-Za-z\d])\d[\d.,]*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand)\b"
)


@pytest.mark.parametrize(
    ("page", "words"),
    [(page, words) for page, rows in FROM_CODE.items() for words in rows],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_figure_that_follows_from_the_code_is_that_of_the_code(page: str, words: Callable[[], str]) -> None:
    assert words() in flat(parts(text(page))[1])


@pytest.mark.parametrize("page", STATED)
def test_every_figure_has_a_row_and_every_row_a_figure(page: str) -> None:
    prose = prose_of(text(page))
    rows = [*(words() for words in FROM_CODE[page]), *MEASURED.get(page, ()), *NO_FIGURES.get(page, ())]
    assert [row for row in rows if row not in prose] == []
    assert without(prose, rows) == []


def prose_of(page: str) -> str:
    """A page's own words: no blocks (they are run, or samples), no comments, no ends of links, no code."""
    prose = re.sub(r"<!--.*?-->|<picture>.*?</picture>", "", parts(page)[1], flags=re.DOTALL)
    return flat(re.sub(r"`[^`]*`", "", re.sub(r"\]\([^)]*\)", "]", prose)))


def without(prose: str, rows: Iterable[str]) -> list[str]:
    """Figures that no row covers, each with the words around it."""
    for row in sorted(rows, key=len, reverse=True):
        prose = prose.replace(row, "")
    found = LOOKS_LIKE_A_FIGURE.finditer(prose)
    return [prose[max(0, each.start() - 40) : each.end() + 40] for each in found]


def test_a_figure_without_a_row_is_seen() -> None:
    assert without(prose_of("It takes **12 minutes**, see [x](docs/7.md) and `-n 4`."), []) == [
        "It takes 12 minutes, see [x] and ."
    ]
    assert without("four small dependencies", []) == ["four small dependencies"]
    assert without("It takes 12 minutes", ["takes 12 minutes"]) == []


# What SCOPE.md grants and denies

PROVED_BY: Mapping[str, tuple[str, str]] = {
    "recognised and left out": (
        "tests/facts/test_fleet_reading.py",
        "test_a_node_that_would_lead_astray_is_left_out_with_its_reason",
    ),
    "`spec.slo` is a limit for latency": (
        "tests/placement/test_speed.py",
        "test_a_gpu_that_misses_the_limit_is_rejected_with_the_figure_and_the_nearest_that_keeps_it",
    ),
    "until an engine of the kind has served": (
        "tests/engines/test_doubts.py",
        "test_an_engine_of_the_kind_that_served_removes_all_doubts",
    ),
    "A part of a model that no memory law covers is refused by name": (
        "tests/facts/test_hybrids.py",
        "test_a_layer_of_another_type_is_refused_by_name",
    ),
    "the engines' pods are scraped directly": (
        "tests/app/test_live.py",
        "test_nothing_read_yet_is_no_answer_and_no_prometheus_is_one",
    ),
    "An older release is refused.": (
        "tests/memory/test_runtime.py",
        "test_older_releases_are_refused_by_name",
    ),
    "whole experts on each rank if the experts' width does not divide": (
        "tests/placement/test_whole_experts.py",
        "test_whole_experts_are_a_candidate_only_where_their_width_does_not_divide",
    ),
    "data-parallel engines for models with experts whose KV cache would be copied": (
        "tests/placement/test_data_parallel.py",
        "test_the_load_that_tensor_parallelism_copies_to_every_rank_gets_engines_side_by_side",
    ),
    "what would make room is proposed, never carried out": (
        "tests/rebalance/test_room.py",
        "test_room_at_others_is_never_carried_out_and_is_always_for_an_addition",
    ),
    "with such flags no fit is called sure": (
        "tests/api/test_given.py",
        "test_every_flag_of_a_release_gets_the_answer_of_a_written_command",
    ),
}
"""Sentences of SCOPE.md that no figure stands for, and a test that fails if they are not true."""


@pytest.mark.parametrize("sentence", PROVED_BY)
def test_a_sentence_of_the_scope_has_its_test(sentence: str) -> None:
    file, name = PROVED_BY[sentence]
    assert sentence in flat(text("SCOPE.md"))
    assert re.search(rf"def {name}\b", text(file))


def test_the_table_of_the_operator_s_rights_is_what_the_chart_grants() -> None:
    rules = re.compile(r"resources: \[(.+)\]\n(?: +resourceNames: .+\n)? *verbs: \[(.+)\]")
    files = ("_rights.tpl", "role.yaml")
    granted = [rule for name in files for rule in rules.findall(text(f"charts/plimsoll/templates/{name}"))]
    table = text("docs/hardening.md").partition("## What the operator may do")[2].partition("\nServed namespaces")[0]
    shown = re.findall(
        r"^\|[^|]*\| (?:ConfigMap |Lease )?`([\w/-]+)`(?:, `([\w/-]+)`)?[^|]*\| ([^|]+) \|", table, re.MULTILINE
    )
    kinds = {"plimsoll-prices": "configmaps", "plimsoll": "leases"}
    told = {
        kinds.get(each, each): set(re.findall(r"[a-z]+", verbs.replace("create of any Lease", "create")))
        for one, other, verbs in shown
        for each in (one, other)
        if each
    }
    held: dict[str, set[str]] = {}
    for resource, verbs in granted:
        held.setdefault(resource, set()).update(verbs.split(", "))
    assert told == {resource: verbs for resource, verbs in held.items() if resource != "secrets"}


def test_no_manifest_of_the_chart_is_a_webhook() -> None:
    manifests = [path.read_text(encoding="utf-8") for path in (ROOT / "charts/plimsoll/templates").iterdir()]
    assert len(manifests) > 5
    assert [each for each in manifests if "WebhookConfiguration" in each] == []


def test_context_parallelism_is_no_split_that_is_chosen() -> None:
    known = [model for name in catalogued_models() if (model := load_model_facts(name)) is not None]
    splits = {split for model in known for split in splits_for(request(model))}
    assert {split.context_parallel for split in splits} == {1}
    assert any(split.expert_parallel for split in splits)
    assert {split.data_parallel for split in splits} == {*TENSOR_PARALLEL_DEGREES}
    assert {split.pipeline_parallel for split in splits} == {1, *PIPELINE_STAGES}
