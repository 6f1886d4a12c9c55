"""What if: changes are chosen from lists, and what is filled in by half or wrong is said at its field."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.cli.plans.what_if import what_if_of
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views.what_if_form import FIELDS
from tests.support.console_pages import Saying, chat, opened, view_of, visit_of, world_of
from tests.support.proposals import Seen

EMPTY = {"manifest": "", "changes": "", "add": "", "add_type": "", "add_gpus": "", "remove": "", "deployment": ""}


async def shown(form: dict[str, str], ran: Ran | None = None) -> tuple[Seen, Saying]:
    """The page after a form was sent, and what was asked."""
    commands = Saying(ran or Ran(2, "", "error: nothing was asked"))
    view = view_of("/what-if", "POST")
    found = await opened(view, visit_of(view, world_of(chat()), form=EMPTY | form, commands=commands))
    assert isinstance(found, Seen)
    return found, commands


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ({"add": "2", "add_type": "h100-sxm-80gb", "add_gpus": "4"}, "+2 h100-sxm-80gb x4"),
        ({"add": "1", "add_type": "l40s-48gb"}, "+1 l40s-48gb x8"),
        ({"remove": "l4-24gb"}, "-l4-24gb"),
        ({"deployment": "ml/chat", "field": "replicas", "value": "3"}, "ml/chat.replicas=3"),
    ],
)
async def test_what_is_chosen_becomes_a_change_that_the_plan_reads(form: dict[str, str], change: str) -> None:
    page, commands = await shown(form)
    ((arguments, _),) = commands.asked
    assert arguments[:2] == ("plan", f"--what-if={change}")
    assert what_if_of([change])
    assert change in page.html[page.html.index('name="changes"') :]  # it stays in the form, as a line


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"add": "2"}, "add_type"), ({"add_type": "l4-24gb"}, "add"), ({"add": "x", "add_type": "l4-24gb"}, "add"),
        ({"add": "0", "add_type": "l4-24gb"}, "add"),
        ({"add": "1", "add_type": "l4-24gb", "add_gpus": "-1"}, "add_gpus"),
        ({"deployment": "ml/chat"}, "field"), ({"field": "replicas"}, "deployment"), ({"value": "3"}, "deployment"),
        ({"deployment": "ml/chat", "field": "replicas"}, "value"),
    ],
)  # fmt: skip
async def test_what_is_filled_in_by_half_is_said_at_its_field_and_nothing_is_asked(
    form: dict[str, str], field: str
) -> None:
    page, commands = await shown(form)
    assert commands.asked == []
    (marked,) = [each for _, each in page.elements if each.get("aria-invalid")]
    assert marked["name"] == field
    for name, value in form.items():
        assert f'name="{name}"' in page.html
        assert f'value="{value}"' in page.html or f"<option selected>{value}</option>" in page.html


async def test_an_error_of_the_plan_stands_at_the_changes() -> None:
    error = "error: --what-if: '+2 l5 x8' cannot be used. `plimsoll gpus` lists the GPU types.\n"
    page, _ = await shown({"changes": "+2 l5 x8"}, Ran(2, "", error))
    (marked,) = [each for _, each in page.elements if each.get("aria-invalid")]
    assert marked["name"] == "changes"
    assert "Other changes: '+2 l5 x8' cannot be used." in page.text


async def test_lists_have_the_clusters_types_first_its_deployments_and_the_fields_of_a_spec() -> None:
    page, _ = await shown({})
    options: list[Any] = page.all("option")
    assert [each["value"] for each in options if each.get("value")] == ["ml/chat", *FIELDS]
    add = page.html[page.html.index('name="add_type"') :]
    add = add[: add.index("</select>")]
    assert add.index("<option>h100-sxm-80gb") < add.index("<option>l4-24gb") < add.index("<option>h100-pcie-80gb")
    assert add.index("<option>mi300x-192gb") < add.index("<option>rtx-3090-24gb") < add.index("<option>h20-96gb")
    assert "-mig-" not in add  # no node is added that has slices only
