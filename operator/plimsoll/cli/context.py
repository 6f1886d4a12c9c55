"""The command line's facts of prices and models, from files, the catalogue or the Hub."""

from __future__ import annotations

from plimsoll.api.conversion.speculation import draft_model
from plimsoll.api.v1alpha1 import InferenceDeployment, ModelSpec
from plimsoll.cli.prices.price_files import read_prices
from plimsoll.cli.reading.model_sources import resolved_facts
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.models.model import ModelFacts
from plimsoll.facts.prices.repricing import OwnPrices


def prices_from(path: str | None) -> OwnPrices:
    """Prices from a file, a ConfigMap manifest or a list in CSV; empty without a file.

    Raises:
        InvalidInput: the file cannot be read, is neither, or holds an entry that is no price of a GPU type.
    """
    own, complaints = read_prices(path, "--prices")
    if complaints:
        raise InvalidInput("--prices", path, f"{complaints[0]}.")
    return own


class Models:
    """The facts of models, from the same sources as the operator's. Each model is requested once.

    An error is kept too: forty objects of one model wait for one time-out.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], ModelFacts | PlimsollError] = {}

    def of(self, resource: InferenceDeployment) -> ModelFacts:
        """The model's facts. Blocks if the Hub must be asked."""
        return self._facts(resource.spec.model)

    def draft_of(self, resource: InferenceDeployment) -> ModelFacts | None:
        """The facts of its draft; None if speculative decoding names none."""
        draft = draft_model(resource.spec)
        return None if draft is None else self._facts(draft)

    def _facts(self, model: ModelSpec) -> ModelFacts:
        if model.config is not None:
            return resolved_facts(model.name, model.revision, model.config)
        key = (model.name, model.revision)
        if key not in self._known:
            try:
                self._known[key] = resolved_facts(model.name, model.revision, None)
            except PlimsollError as error:
                self._known[key] = error
        known = self._known[key]
        if isinstance(known, PlimsollError):
            raise known
        return known
