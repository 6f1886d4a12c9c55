"""The ``plimsoll`` command.

Exit status of ``plan``: 0 everything is placed, 1 something cannot be placed, 2 the input cannot be used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from plimsoll import __version__
from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.api.v1alpha1 import SpeculationMethod
from plimsoll.cli.bars import print_answers, print_one
from plimsoll.cli.context import ClusterAccess, fleet_from, live_object, prices_from
from plimsoll.cli.documents import no_deployment, read_manifests
from plimsoll.cli.estimate import Asked, Question, question_for
from plimsoll.cli.estimate_json import answer_document
from plimsoll.cli.files import refuse_second_stdin
from plimsoll.cli.planning import Planned, plan_located
from plimsoll.cli.story import print_story
from plimsoll.cli.tables import print_details, print_ignored, print_plan
from plimsoll.cli.types import answers, left_out
from plimsoll.cli.working import print_working, working_document
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.fleet import IgnoredNode
from plimsoll.domain.outcomes import Rejection, Split
from plimsoll.domain.units import GIB
from plimsoll.placement.sizing import Sized

EXIT_PLACED = 0
EXIT_UNPLACED = 1
EXIT_BAD_INPUT = 2

_CLUSTER_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="As for kubectl."),
    click.option("--context", help="As for kubectl."),
)


def _with_cluster(command: Any) -> Any:
    for option in reversed(_CLUSTER_OPTIONS):
        command = option(command)
    return command


@click.group()
@click.version_option(__version__)
def cli() -> None:
    """The load line for GPU memory: size, place and rebalance vLLM deployments on Kubernetes."""


@cli.command()
def run() -> None:
    """Run the operator. Settings come from PLIMSOLL_* environment variables."""
    from plimsoll.app.operator import run as run_operator  # noqa: PLC0415 - Kopf is heavy and only needed here
    from plimsoll.app.settings import Settings  # noqa: PLC0415 - same

    run_operator(Settings.from_environment())


@cli.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    help="Manifest, folder of manifests, or - for standard input; may be repeated.",
)
@click.option("-R", "--recursive", is_flag=True, help="Look in the folders below those of -f, too.")
@click.option(
    "--fleet", help="Nodes and pods from a file (or -) instead of the cluster: kubectl get nodes,pods -A -o yaml."
)
@click.option("--prices", help="ConfigMap manifest with US dollars per GPU and hour, by GPU type.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "objects"]), default="table")
@_with_cluster
def plan(
    files: tuple[str, ...],
    recursive: bool,  # noqa: FBT001 - a flag of the command line
    fleet: str | None,
    prices: str | None,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Say where manifests would be placed, with which estimate, and why not elsewhere. Changes nothing.

    They are planned together: the first gets its GPUs first. Exit status: 0 everything is placed, 1 something cannot be
    placed, 2 some input cannot be used (the rest is planned without it).
    """
    refuse_second_stdin(f=files, fleet=[fleet or ""], prices=[prices or ""])
    manifests = read_manifests(files, recursive=recursive)
    _complain(manifests.problems)
    if not manifests.found:
        if not manifests.problems:
            raise no_deployment(files)
        sys.exit(EXIT_BAD_INPUT)
    note = manifests.note()
    if note is not None:
        click.echo(f"note: {note}", err=True)
    seen = fleet_from(fleet, ClusterAccess(kubeconfig, context), prices_from(prices))
    show = Planned.objects if output == "objects" else Planned.document
    shown, problems = plan_located(manifests.found, seen, show)
    _complain(problems)
    if shown:
        _print_plan([printed for _, printed in shown], output, seen.ignored)
    unusable = len(manifests.problems) + len(problems)
    if shown and unusable:
        click.echo(f"error: {unusable} of the inputs cannot be used (see above): this plan is without them.", err=True)
    if unusable:
        sys.exit(EXIT_BAD_INPUT)
    sys.exit(EXIT_PLACED if all(entry.is_placed for entry, _ in shown) else EXIT_UNPLACED)


def _complain(problems: Sequence[str]) -> None:
    for problem in problems:
        click.echo(f"error: {problem}", err=True)


def _print_plan(printed: Sequence[Any], output: str, ignored: Sequence[IgnoredNode]) -> None:
    if output == "objects":
        click.echo(yaml.safe_dump_all([body for bodies in printed for body in bodies], sort_keys=False), nl=False)
    elif output == "json":
        click.echo(json.dumps(printed, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(printed, sort_keys=False), nl=False)
    else:
        _show_plan(list(printed), ignored)


def _show_plan(documents: list[dict[str, Any]], ignored: Sequence[IgnoredNode]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_plan(console, documents)
    for document in documents:
        console.rule(f"{document['namespace']}/{document['name']}", align="left")
        print_details(console, document)
    print_ignored(console, ignored)


@cli.command()
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@_with_cluster
def explain(name: str, namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Tell the story of one InferenceDeployment of the cluster: decision, estimate, rejections, what runs."""
    body = live_object(namespace, name, ClusterAccess(kubeconfig, context))
    console = Console(width=None if sys.stdout.isatty() else 160)
    if body is None:
        console.print(f"There is no InferenceDeployment {namespace}/{name}.", highlight=False)
        sys.exit(EXIT_BAD_INPUT)
    print_story(console, body)


@cli.command()
@click.argument("model")
@click.option("--gpu", "gpus", multiple=True, help="GPU type (see `plimsoll gpus`); may be repeated. Default: all.")
@click.option("--tp", type=click.IntRange(1, 64), help="Tensor-parallel degree. Default: the fewest GPUs that fit.")
@click.option("--pp", type=click.IntRange(1, 64), default=1, show_default=True, help="Pipeline stages, with --tp.")
@click.option("--ep", is_flag=True, help="Expert parallelism, with --tp.")
@click.option("--context", type=click.IntRange(1), help="Longest request in tokens. Default: 8192, or the model's own.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests at the same time. Default: 16.")
@click.option(
    "--prompt",
    type=click.IntRange(1),
    help="Mean prompt tokens, with --output-tokens: sizes for the expected load, whatever a manifest's sizing.",
)
@click.option("--output-tokens", type=click.IntRange(1), help="Mean output tokens, with --prompt.")
@click.option("--precision", help="Weights: auto, bf16, fp16, fp8, ...")
@click.option("--kv-precision", help="KV cache: auto, bf16, fp16, fp8, nvfp4.")
@click.option("--engine", help="vLLM release, e.g. 0.32.0.")
@click.option("--utilization", type=click.IntRange(10, 98), help="Percent of usable memory the engine may take.")
@click.option("--batched-tokens", type=click.IntRange(64), help="Tokens of an engine step.")
@click.option("--eager", is_flag=True, help="No CUDA graphs.")
@click.option("--text-only", is_flag=True, help="Without the vision or audio tower.")
@click.option("--cpu-offload", help="Weights of each GPU to keep in host memory, e.g. 8Gi.")
@click.option("--lora", type=(int, int), help="LoRA slots and their largest rank, e.g. --lora 4 16.")
@click.option(
    "--speculate",
    type=(click.Choice([method.value for method in SpeculationMethod], case_sensitive=False), click.IntRange(1, 32)),
    help="Speculative decoding: method and tokens a step, e.g. --speculate Ngram 4.",
)
@click.option("--draft", help="The head or small model of --speculate Eagle or Draft: a name or a config.json.")
@click.option("--why", is_flag=True, help="Show every formula with its numbers (for one GPU type).")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
def estimate(
    model: str,
    gpus: tuple[str, ...],
    tp: int | None,
    pp: int,
    ep: bool,  # noqa: FBT001 - a flag of the command line
    context: int | None,
    concurrency: int | None,
    prompt: int | None,
    output_tokens: int | None,
    precision: str | None,
    kv_precision: str | None,
    engine: str | None,
    utilization: int | None,
    batched_tokens: int | None,
    eager: bool,  # noqa: FBT001 - same
    text_only: bool,  # noqa: FBT001 - same
    cpu_offload: str | None,
    lora: tuple[int, int] | None,
    speculate: tuple[str, int] | None,
    draft: str | None,
    why: bool,  # noqa: FBT001 - same
    output: str,
) -> None:
    """Say what MODEL (a name, a checkpoint folder, a config.json or a manifest) needs on each GPU type."""
    asked = Asked(
        context=context,
        concurrency=concurrency,
        precision=precision,
        kv_precision=kv_precision,
        engine=engine,
        utilization=utilization,
        batched_tokens=batched_tokens,
        prompt=prompt,
        output=output_tokens,
        eager=eager,
        text_only=text_only,
        cpu_offload=cpu_offload,
        lora=lora,
        speculate=speculate,
        draft=draft,
        gpus=gpus,
        split=None if tp is None else Split(tp, pp, expert_parallel=ep),
    )
    if tp is None and (pp > 1 or ep):
        raise InvalidInput("--ep" if ep else "--pp", ep or pp, "Name --tp beside it.")
    question = question_for(model, asked)
    found = answers(question.request, gpus, asked.split)
    # Of every type there is, those that the manifest rules out would bury the others.
    shown, words = (found, ()) if gpus else left_out(question.request, found)
    if why and len(shown) != 1:
        raise InvalidInput("--why", f"{len(shown)} GPU types", "Name one GPU type with --gpu.")
    if output == "json":
        _print_documents(question, found, with_working=shown if why else ())
    else:
        _show_answers(question, shown, words, why=why)


def _print_documents(
    question: Question, found: Sequence[Sized | Rejection], *, with_working: Sequence[Sized | Rejection]
) -> None:
    told = [answer_document(question.request, answer) for answer in found]
    for document, answer in zip(told, found, strict=True):
        document["notes"] = list(question.notes)
        if answer in with_working:
            document["working"] = working_document(question.request, answer)
    click.echo(json.dumps(told, indent=2))


def _show_answers(question: Question, shown: Sequence[Sized | Rejection], words: Sequence[str], *, why: bool) -> None:
    """The table, and below it all that is to be said of one GPU type where there is one alone."""
    request = question.request
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_answers(console, request, shown)
    for note in (*question.notes, *words):
        console.print(f"Note: {note}", highlight=False, markup=False)
    for answer in (each for each in shown if isinstance(each, Sized) and len(shown) == 1):
        print_one(console, request, answer)
        if why:
            print_working(console, request, answer)


@cli.command()
def gpus() -> None:
    """List the GPU types that manifests and prices can name."""
    table = Table("TYPE", "USABLE GiB", "NODE LABEL", "$/h", "PRICE FROM", box=None)
    for gpu in load_gpu_types():
        price = ("-", "-") if gpu.price is None else (f"{gpu.price.usd_per_hour:.2f}", gpu.price.source)
        table.add_row(gpu.name, f"{gpu.usable_bytes / GIB:.2f}", ", ".join(gpu.product_labels), *price)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@cli.command()
def models() -> None:
    """List the models that are known without any network."""
    for name in catalogued_models():
        click.echo(name)


def main() -> None:
    """Entry point: our own errors become one sentence on stderr and exit status 2."""
    try:
        cli()
    except PlimsollError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
