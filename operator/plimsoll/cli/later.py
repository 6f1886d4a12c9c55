"""Imports that happen only on use: they take long, or they need an extra of the package.

All these imports of the command line are here. A missing extra becomes an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.observations import Correction, Observation
from plimsoll.domain.engines.engine_choice import Speculation, SpeculationMethod
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.models.model import ModelFacts
from plimsoll.facts.prices.repricing import OwnPrices

if TYPE_CHECKING:
    from plimsoll.adapters.hub.hub import HubModels
    from plimsoll.adapters.hub.registries import Registries
    from plimsoll.adapters.weights.copying import FolderCopy
    from plimsoll.app.exports.document import Export
    from plimsoll.app.review.values import DeploymentWish, Means, Measured, Review
    from plimsoll.cli.cluster.deciding import DecidingCluster
    from plimsoll.cli.cluster.live import LiveCluster
    from plimsoll.cli.cluster.options import ClusterAccess
    from plimsoll.cli.cluster.past import PastOfDeployment
    from plimsoll.cli.cluster.teachers import Lessons, Teachers
    from plimsoll.cli.starts.written_commands import Written
    from plimsoll.domain.requests.serving import Request
    from plimsoll.placement.demands.pools import Place
    from plimsoll.placement.solvers import Fleetwide, Overload
    from plimsoll.rebalance.state.policy import RebalancePolicy
    from plimsoll.simulation.replay import Schedule


Body = dict[str, Any]


_WITHOUT_HUB = (
    ", give the model's config.json (a file, or spec.model.config of a manifest), or name a model that "
    "`plimsoll models` lists."
)


class MissingExtra(PlimsollError):
    """A command needs distributions that only an extra of the package installs."""


@contextmanager
def _from_extra(extra: str, purpose: str, otherwise: str = "") -> Iterator[None]:
    """Turn an import that fails because ``extra`` is missing into :class:`MissingExtra`.

    Args:
        extra: the extra that installs what is imported.
        purpose: the feature that needs it.
        otherwise: how to do without, if there is a way.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "plimsoll"):  # a fault of the package, not of how it was installed
            raise
        fix = f"Run: pip install 'plimsoll[{extra}]'"
        raise MissingExtra(f"{purpose} needs {name}, which is not installed. {fix}{otherwise}") from error


def run_operator() -> None:
    """Run the operator until it is stopped. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "The operator"):
        from plimsoll.app.operator import run
        from plimsoll.app.settings import Settings
    run(Settings.from_environment())


def weights_copy(folder: Path, say: Callable[[str], None]) -> FolderCopy:
    """A copy of weights into a folder. Raises :class:`MissingExtra`."""
    with _from_extra("weights", "Copying weights"):
        from plimsoll.adapters.weights.copying import FolderCopy
    return FolderCopy(folder, say)


def solver_of_plans(overload: Overload) -> Fleetwide:
    """The operator's own solver, so that a plan is the operator's. Raises :class:`MissingExtra`."""
    with _from_extra("solver", "A plan"):
        import highspy  # noqa: F401 - it is asked for here, and used where a programme is solved

        from plimsoll.adapters.highs import fleetwide
    return fleetwide(overload)


OR_FLEET = ", or name a file with --fleet."
"""How to do without a cluster."""


def cluster_of(access: ClusterAccess, otherwise: str = "") -> LiveCluster:
    """A cluster as this user reaches it; ``otherwise`` says how to do without. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "Asking a cluster", otherwise):
        from plimsoll.cli.cluster.live import LiveCluster
    return LiveCluster(access)


def deciding_cluster(access: ClusterAccess, otherwise: str = "") -> DecidingCluster:
    """A cluster on which the operator's decision is made; as :func:`cluster_of`. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "Asking a cluster", otherwise):
        from plimsoll.cli.cluster.deciding import DecidingCluster
    return DecidingCluster(cluster_of(access, otherwise))


def past_of(body: Body, url: str | None, seconds: float, progress: Callable[[float], None]) -> PastOfDeployment:
    """Return the requests that came to a deployment, by its Prometheus. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "Asking Prometheus", ", or name a file with --trace."):
        from plimsoll.cli.cluster.past import past_of as asked
    return asked(body, url, seconds, progress)


def spec_policy(body: Body) -> tuple[RebalancePolicy, int]:
    """The bounds of a spec in Auto mode, and its replicas."""
    from plimsoll.cli.cluster.past import spec_policy as found

    return found(body)


def chosen_engine(body: Body) -> str | None:
    """The engine that runs where the planner chose it; None if the spec names it, or nothing is placed."""
    from plimsoll.cli.cluster.past import chosen_engine as found

    return found(body)


def place_of(body: Body) -> Place | None:
    """The GPU type and split that a status names; None if nothing is placed."""
    from plimsoll.cli.cluster.past import place_of as found

    return found(body)


def schedule_of(body: Body, begin: float) -> Schedule | None:
    """The scheduled minima of a spec by seconds since a beginning; None if it has none."""
    from plimsoll.cli.cluster.past import schedule_of as found

    return found(body, begin)


def replay(stored: Export, wishes: Sequence[DeploymentWish], means: Means) -> Review:
    """The operator's decision on a snapshot if these objects had been applied. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "The operator's decision on a snapshot"):
        from plimsoll.cli.cluster import deciding
    return deciding.replay(stored, wishes, means)


def replay_capacity(stored: Export, wish: DeploymentWish, means: Means) -> Measured:
    """How many more replicas of an object fitted on a snapshot. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "The operator's decision on a snapshot"):
        from plimsoll.cli.cluster import deciding
    return deciding.replay_capacity(stored, wish, means)


def default_namespace(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of objects that name none, as for kubectl. Raises :class:`MissingExtra`."""
    with _from_extra("operator", "Asking a cluster", OR_FLEET):
        from plimsoll.cli.cluster import live
    return live.default_namespace(kubeconfig, context)


def lessons_of(teachers: Teachers) -> Lessons:
    """Return what engines have taught. Importing the models of a status takes as long as the rest."""
    from plimsoll.cli.cluster import lessons

    return lessons.lessons_of(teachers)


def corrections_for(request: Request, found: Lessons, *, as_operator: bool) -> tuple[Correction, ...]:
    """Return the corrections for a request's model."""
    from plimsoll.cli.cluster import lessons

    return lessons.corrections_for(request, found, as_operator=as_operator)


def saved_observation(name: str, observation: Observation) -> int:
    """Add an observation to a file, and return the number of its entries. The file has the form of a status."""
    from plimsoll.cli.reading.observation_files import save_observation

    return save_observation(name, observation)


def observation_document(observation: Observation) -> Body:
    """Return an observation as an entry of a status."""
    from plimsoll.cli.reading.observation_files import entry_of

    return entry_of(observation)


def hub_models(cache: Path) -> HubModels:
    """The hub, with its earlier answers in a folder. Raises :class:`MissingExtra`."""
    with _from_extra("hub", "Asking the Hub for a model", _WITHOUT_HUB):
        from plimsoll.adapters.hub.hub import HubModels
    return HubModels(cache)


def registries(allowed: Sequence[str]) -> Registries:
    """The registries of images. Raises :class:`MissingExtra`."""
    with _from_extra("hub", "Asking a registry for the platforms of an image"):
        from plimsoll.adapters.hub.registries import Registries
    return Registries(allowed)


def manifest_prices(name: str, text: str, catalog: Sequence[GpuType]) -> tuple[OwnPrices, tuple[str, ...]] | None:
    """Return the prices of a text's ConfigMaps. Importing YAML takes as long as reading the catalogue."""
    from plimsoll.cli.prices import price_manifests

    return price_manifests.manifest_prices(name, text, catalog)


def known_question(
    manifest: Body, model: ModelFacts, draft: ModelFacts | None, asked: TypedOptions, *, shortens: bool
) -> EstimateQuestion:
    """Return the question of a manifest whose models are known. Importing pydantic takes as long as all the rest."""
    from plimsoll.cli.questions.manifest_question import manifest_question

    return manifest_question(manifest, model, draft, asked, shortens=shortens, is_own=False)


def speculation_of(method: SpeculationMethod, tokens: int, model: ModelFacts, draft: ModelFacts | None) -> Speculation:
    """Return speculative decoding after the checks of the API, which import pydantic."""
    from plimsoll.api.conversion import speculation

    return speculation.speculation_of(method, tokens, model, draft)


def written_manifest(source: str, asked: TypedOptions, question: EstimateQuestion) -> str:
    """Return the text of the InferenceDeployment of a question. It needs YAML, and the API's models to check it."""
    from plimsoll.cli.questions.written_manifest import asked_manifest, manifest_text

    return manifest_text(asked_manifest(source, asked, question))


def checked_manifest(body: Body) -> None:
    """Raise :class:`InvalidInput` if the API server or the operator would refuse an object."""
    from plimsoll.cli.questions.written_manifest import checked

    checked(body)


def manifest_text(body: Body) -> str:
    """Return a manifest as text. Importing YAML takes as long as the catalogue."""
    from plimsoll.cli.questions import written_manifest

    return written_manifest.manifest_text(body)


def name_for(model: str) -> str:
    """Return a name for an object of this model."""
    from plimsoll.cli.questions.written_manifest import object_name

    return object_name(model)


def model_facts(source: str, revision: str | None, field: str) -> ModelFacts:
    """Return the facts of a model that the catalogue may not have. Files may be YAML."""
    from plimsoll.cli.questions import sources

    return sources.model_facts(source, revision, field)


def command_of_file(name: str) -> Written | Body:
    """Return the first server of a file, or its InferenceDeployment. Importing YAML takes as long as the catalogue."""
    from plimsoll.cli.starts import command_files

    return command_files.command_of_file(name)


def manifest_question(source: str, asked: TypedOptions, read: Body | None = None) -> EstimateQuestion:
    """Return the question through a manifest. Importing pydantic and the API models takes as long as all the rest."""
    from plimsoll.cli.questions.estimate import question_for

    return question_for(source, asked, read)
