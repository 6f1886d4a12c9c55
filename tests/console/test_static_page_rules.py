"""Pages ask no other origin, run no inline code, and need no Node: what can be seen in the files."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from plimsoll.console.pages.routes import PAGES
from plimsoll.console.rendering import STATIC, asset
from plimsoll.console.visit import View
from tests.support.console_pages import Answering, chat, chat_pod, opened, visit_of, world_of
from tests.support.proposals import Seen, proposal
from tests.support.tables import every_case

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "operator" / "plimsoll" / "console" / "templates").rglob("*.html"))

VENDORED = {
    "htmx-4.0.1.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse-4.0.1.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}
"""The digests of the files that the package htmx.org 4.0.1 of npm has."""

GETS = [view for view in PAGES if view.method == "GET"]


@pytest.mark.parametrize(("name", "digest"), VENDORED.items())
def test_the_vendored_files_are_those_of_their_package(name: str, digest: str) -> None:
    assert sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert asset(name) == f"/static/{digest[:12]}/{name}"


@every_case("path", TEMPLATES, ids=[path.name for path in TEMPLATES])
def test_a_template_has_no_style_no_handler_and_no_inline_script(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle\s*=", text)
    assert not re.search(r"\s(on[a-z]+|hx-on[^\s=]*)\s*=", text)
    assert not re.search(r"hx-vals\s*=\s*['\"]js:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert "|safe" not in text.replace(" ", "")
    assert "autoescape" not in text


def test_there_are_templates_to_look_at() -> None:
    assert "base.html" in {path.name for path in TEMPLATES}


@pytest.mark.parametrize("name", ["console.css", "console.js", "mark.svg"])
def test_our_own_files_name_no_other_origin(name: str) -> None:
    text = (STATIC / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|url\((?!#)|@import", text)


def test_nothing_in_the_repository_needs_node() -> None:
    assert not list(ROOT.glob("package*.json"))
    assert not [path for folder in ("operator", "charts", "scripts") for path in (ROOT / folder).rglob("package.json")]
    assert not re.search(r"\b(npm|npx|yarn|pnpm)\b", (ROOT / "Makefile").read_text(encoding="utf-8"))


@pytest.mark.parametrize("view", GETS, ids=[view.path for view in GETS])
async def test_every_address_in_a_page_is_of_its_own_origin(view: View) -> None:
    body = chat()
    answers = Answering({"inferencedeployments": body, "placementproposals": proposal()})
    seen = await opened(view, visit_of(view, world_of(body, pods=[chat_pod()]), cluster=answers))
    assert isinstance(seen, Seen)
    addresses = [
        str(value)
        for _, attributes in seen.elements
        for name, value in attributes.items()
        if name in ("href", "src", "action", "hx-get", "hx-sse:connect", "formaction", "data", "poster", "srcset")
    ]
    assert len(addresses) > 10
    assert [each for each in addresses if not re.match(r"/(?!/)|#|\?", each)] == []
    assert [each for _, attributes in seen.elements for each in attributes if each == "style"] == []
