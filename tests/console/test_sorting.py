"""Tables are sorted by a parameter of the URL: links, no script, and what is unknown stands last."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from plimsoll.console.views.deployments import deployments_of
from plimsoll.console.views.load.live_use import LiveUse, SampledFigure
from plimsoll.console.views.sorting import SortColumn, sorted_items
from tests.support.console_pages import chat, page_of, world_of
from tests.support.proposals import NOW


class Thing(NamedTuple):
    name: str
    price: int | None


THINGS = (Thing("b", 2), Thing("a", None), Thing("c", 3), Thing("d", 2))
COLUMNS: tuple[SortColumn[Thing], ...] = (
    SortColumn("name", "Name", lambda each: each.name),
    SortColumn("price", "$/h", lambda each: each.price, is_falling=True),
)


@pytest.mark.parametrize(
    ("asked", "names", "chosen"),
    [
        ("", "bacd", ""), ("name", "abcd", "name"), ("-name", "dcba", "-name"),
        ("price", "cbda", "price"), ("-price", "bdca", "-price"), ("none-such", "bacd", ""),
    ],
)  # fmt: skip
def test_a_column_has_two_ways_and_what_is_unknown_is_last_in_both(asked: str, names: str, chosen: str) -> None:
    found = sorted_items(THINGS, COLUMNS, "/things", {"sort": [asked]})
    assert ("".join(each.name for each in found.items), found.chosen) == (names, chosen)


def test_a_head_leads_to_its_order_and_then_to_the_other_way_and_keeps_the_filters() -> None:
    query = {"q": ["x"], "column": ["need", "price"], "page": ["3"], "sort": ["price"]}
    heads = sorted_items(THINGS, COLUMNS, "/things", query).heads
    assert heads["price"].address == "/things?q=x&column=need&column=price&sort=-price"
    assert (heads["price"].aria, heads["price"].symbol) == ("descending", "\u2193")
    assert heads["name"].address == "/things?q=x&column=need&column=price&sort=name"
    assert (heads["name"].aria, heads["name"].symbol) == ("", "")


def named(name: str, price: str | None) -> dict[str, Any]:
    body = chat()
    body["metadata"]["name"] = name
    if price is None:
        del body["status"]["placement"]["hourlyPrice"]
    else:
        body["status"]["placement"]["hourlyPrice"] = price
    return body


CHEAP, DEAR, FREE = named("cheap", "9.00"), named("dear", "1200.00"), named("unknown", None)


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("price", ["dear", "cheap", "unknown"]), ("-price", ["cheap", "dear", "unknown"]),
        ("-name", ["unknown", "dear", "cheap"]), ("kv", ["cheap", "unknown", "dear"]),
    ],
)  # fmt: skip
def test_deployments_are_sorted_by_price_by_name_and_by_live_use(sort: str, names: list[str]) -> None:
    world = world_of(CHEAP, DEAR, FREE)
    keys = {key.name: key for key in world.rows}
    uses = {keys[name]: LiveUse(kv=SampledFigure(share, NOW)) for name, share in (("cheap", 0.9), ("unknown", 0.2))}
    found = deployments_of(world, "/deployments", {"sort": [sort]}, uses)
    assert [line.row.key.name for line in found.part.items] == names


async def test_the_list_has_the_columns_that_were_chosen_and_marks_its_order() -> None:
    usual = await page_of("/deployments", world_of(CHEAP, DEAR))
    assert [each["data-label"] for each in usual.all("td") if each.get("data-label")][:6] == [
        "need / line GiB", "KV room / need", "KV now", "batch now", "replicas", "$/h",
    ]  # fmt: skip
    query = {"column": ("spare", "age"), "sort": ("age",)}
    chosen = await page_of("/deployments", world_of(CHEAP, DEAR), query=query)
    assert [each["data-label"] for each in chosen.all("td") if each.get("data-label")][:2] == ["spare GiB", "age"]
    assert [each.get("aria-sort") for each in chosen.all("th") if each.get("aria-sort")] == ["descending"]
    assert [each["value"] for each in chosen.all("input") if "checked" in each] == ["spare", "age"]
    assert any(
        each.get("selected") is None and each["value"] == "age" for each in chosen.all("option") if "selected" in each
    )


@pytest.mark.parametrize(
    ("sort", "names"), [("free", ["h100-0", "l4-0"]), ("-free", ["l4-0", "h100-0"]), ("-name", ["l4-0", "h100-0"])]
)
async def test_nodes_are_sorted(sort: str, names: list[str]) -> None:
    seen = await page_of("/fleet", world_of(), query={"sort": (sort,)})
    shown = seen.html[seen.html.index('<ul class="nodes">') :]
    assert sorted(names, key=shown.index) == names
    assert [each["value"] for each in seen.all("option") if "selected" in each] == [sort]


async def test_pressure_is_sorted_by_name_and_keeps_its_order_with_another_time() -> None:
    query = {"sort": ("-name",), "q": ("ml",)}
    seen = await page_of("/pressure", world_of(CHEAP, DEAR), query=query)
    shown = seen.html[seen.html.index('<table class="pressure') :]
    assert shown.index("dear") < shown.index("cheap")
    assert "/pressure?sort=-name&q=ml&span=6h" in [each.get("href") for each in seen.all("a")]


async def test_errors_are_sorted_by_their_size() -> None:
    def reported(name: str, predicted: int) -> dict[str, Any]:
        body = named(name, "1.00")
        body["spec"] = {"model": {"name": name}}
        body["status"]["pools"][0] |= {"kvTokensPredicted": predicted, "kvTokensReported": 1000}
        return body

    world = world_of(reported("right", 1000), reported("wrong", 1500))
    for sort, first in (("worst", "wrong"), ("-worst", "right"), ("model", "right"), ("", "wrong")):
        seen = await page_of("/accuracy", world, query={"sort": (sort,)})
        rows = seen.html[seen.html.index("<tbody>") :]
        other = {"right": "wrong", "wrong": "right"}[first]
        assert rows.index(f'<th scope="row">{first}') < rows.index(f'<th scope="row">{other}'), sort
