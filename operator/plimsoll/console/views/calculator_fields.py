"""The calculator's form as a page shows it: each option with the value that was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.console.views.calculator_form import Query
from plimsoll.console.views.calculator_options import FIRST, MORE, Option


@dataclass(frozen=True, slots=True)
class Field:
    """An option and the text in its field."""

    option: Option
    value: str


@dataclass(frozen=True, slots=True)
class FormView:
    """The form. ``gpus`` are the types asked for as written; ``types`` and ``models`` are all that can be chosen.

    ``opens_more`` and ``opens_config`` say whether a folded part holds a value.
    """

    model: str
    config: str
    gpus: tuple[str, ...]
    first: tuple[Field, ...]
    more: tuple[Field, ...]
    models: tuple[str, ...]
    types: tuple[str, ...]

    @property
    def opens_more(self) -> bool:
        """Whether one of the other options is set."""
        return any(each.value for each in self.more)


def form_view(query: Query) -> FormView:
    """Return the form with the values of a URL, right or wrong."""
    return FormView(
        model=_first(query, "model"),
        config=_first(query, "config"),
        gpus=tuple(each.strip() for each in query.get("gpu", ()) if each.strip()),
        first=tuple(Field(each, _first(query, each.name)) for each in FIRST),
        more=tuple(Field(each, _first(query, each.name)) for each in MORE),
        models=catalogued_models(),
        types=tuple(gpu.name for gpu in load_gpu_types()),
    )


def _first(query: Query, name: str) -> str:
    values = query.get(name) or ("",)
    return values[0].strip()
