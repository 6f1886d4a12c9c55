"""The static calculator in a real browser: its figures are those of ``plimsoll estimate``, from files alone."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from plimsoll.console.alone import document, page
from tests.support import tables
from tests.support.static_calculator import built_or_skip
from tests.support.tabs import Tab, open_tab

pytestmark = pytest.mark.browser

MODELS = (
    "Qwen/Qwen3-8B",
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
)
GPUS = ("", "l4-24gb", "h100-sxm-80gb", "mi300x-192gb")
CHECKED = ("&lora=4 16", "&prompt=900&output-tokens=100", "&cpu-offload=4Gi", "&speculate=Ngram 4")
"""Options that need pydantic."""

PLAIN = tuple(f"?model={model}{'&gpu=' if gpu else ''}{gpu}" for model in MODELS for gpu in GPUS)
WITH_OPTIONS = tuple(f"?model={MODELS[0]}&gpu=h100-sxm-80gb{options}" for options in CHECKED)

MOST_PLAIN = 4
"""Of the plain questions, in the usual run; ``make test-browser`` asks all."""

MARKUP = "<img src=x onerror=alert(1)>"
"""What somebody may put into a link to the calculator. These tests open such an address."""

_KEEP_THE_WORKER = """
window.Worker = class extends Worker {
  constructor(...given) {
    super(...given);
    window.workerOfThePage = this;
  }
};
"""

_ASK = """
async (queries) => {
  const worker = window.workerOfThePage;
  const failed = new Promise((_, reject) => worker.addEventListener("error", reject));
  const answers = [];
  for (const [index, query] of queries.entries()) {
    const id = `test ${index}`;
    const answer = new Promise((resolve) => {
      worker.addEventListener("message", function heard({ data }) {
        if (data.id !== id) return;
        worker.removeEventListener("message", heard);
        resolve(data.fault ?? data.text);
      });
      worker.postMessage({ id, kind: "document", query });
    });
    answers.push(await Promise.race([answer, failed]));
  }
  return answers;
}
"""
"""Asks the worker that the page has started: to load Python takes most of the time of these tests."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002 - the base class's name
        """Write nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The files below a path of a plain file server on loopback; the address."""
    folder = tmp_path_factory.mktemp("site")
    built_or_skip(folder / "some" / "place")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@dataclass(frozen=True, slots=True)
class Opened:
    """A page that has loaded Python, and what it showed then. Each test fills in its form."""

    tab: Tab
    alert: str
    images: int


@pytest.fixture(scope="module")
def opened(chromium: Browser, site: str) -> Iterator[Opened]:
    """The page of an address that contains markup."""
    with open_tab(chromium, site) as tab:
        tab.page.add_init_script(_KEEP_THE_WORKER)
        tab.go(f"/some/place/?model={MARKUP}")
        alert = tab.page.get_by_role("alert").inner_text()
        yield Opened(tab, alert, tab.page.locator("#main img").count())


@pytest.fixture
def tab(opened: Opened) -> Tab:
    return opened.tab


def calculate(shown: Page, model: str, gpu: str, context: str = "") -> str:
    """Fill in the form, send it, and return the command of the answer."""
    shown.get_by_label("Model", exact=True).fill(model)
    shown.get_by_label("GPU", exact=True).select_option(gpu)
    shown.get_by_label("Context").fill(context)
    shown.get_by_role("button", name="Calculate").press("Enter")
    shown.locator("#command", has_text=re.compile(f"estimate {model} .*--gpu {gpu}")).wait_for()
    return shown.locator("#command").inner_text()


def test_the_worker_gives_the_bytes_of_the_command(tab: Tab) -> None:
    queries = [*tables.drawn(PLAIN, MOST_PLAIN, "the worker"), *WITH_OPTIONS]
    answers = tab.page.evaluate(_ASK, queries)
    for query, answer in zip(queries, answers, strict=True):
        assert answer == document(query), query


def test_a_form_is_an_address_and_the_page_is_the_consoles(tab: Tab) -> None:
    shown = tab.page
    assert calculate(shown, "Qwen/Qwen3-8B", "l4-24gb") == "plimsoll estimate Qwen/Qwen3-8B --gpu l4-24gb"
    assert shown.url.endswith("/some/place/?model=Qwen%2FQwen3-8B&gpu=l4-24gb")
    parsed = "(html) => { const div = document.createElement('div'); div.innerHTML = html; return div.innerHTML; }"
    wanted = shown.evaluate(parsed, page("?model=Qwen/Qwen3-8B&gpu=l4-24gb"))
    assert shown.locator("#main").inner_html() == wanted
    assert (tab.violations, tab.foreign, tab.errors, tab.messages) == ([], [], [], [])


def test_it_answers_without_a_network_once_it_is_loaded(tab: Tab) -> None:
    calculate(tab.page, "openai/gpt-oss-20b", "h100-sxm-80gb")
    tab.page.context.set_offline(True)
    try:
        assert "--context-length 4096" in calculate(tab.page, "Qwen/Qwen3-8B", "h100-sxm-80gb", context="4096")
    finally:
        tab.page.context.set_offline(False)


def test_a_fault_is_said_in_the_page(opened: Opened) -> None:
    assert MARKUP in opened.alert
    assert opened.images == 0
    assert opened.tab.errors == []
