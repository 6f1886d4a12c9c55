"""Every option of the command line: its names, its type and its help text, once.

A command takes an option by its long name with :func:`option`. It may add a note that holds for this command alone, a
default, and which words of a list it takes; it may not rename anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.api.bounds import ENGINE_HELP


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises click's error, which says what to write."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            least, most = "any" if self.min is None else self.min, "on" if self.max is None else f"to {self.max:,}"
            self.fail(
                f"{value!r} cannot be used. Write a whole number from {least} {most}, in digits alone.", param, ctx
            )


_FILE: Final = click.Path(exists=True, dir_okay=False)
_DEGREE: Final = Whole(1, 64)
_COUNT: Final = Whole(1)


@dataclass(frozen=True, slots=True)
class Entry:
    """An option of the glossary.

    Attributes:
        names: as click takes them: a short name if there is one, the long one, and the parameter if it differs.
        help: what the option says or does, for every command that has it.
        kind: the type, or a function that makes it of the words that a command takes; None for text.
        more: further attributes of click's option.
    """

    names: tuple[str, ...]
    help: str
    kind: Any = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def long(self) -> str:
        """The name by which commands take it."""
        return next(name for name in self.names if name.startswith("--")).partition("/")[0]


def _one_of(words: Sequence[str]) -> click.Choice[str]:
    return click.Choice(list(words))


def _drafting(words: Sequence[str]) -> tuple[Any, ...]:
    return click.Choice(list(words), case_sensitive=False), Whole(1, 32)


def _starting_with(names: Sequence[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.lower().startswith(begun.lower())]


def complete_gpu(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The catalogue's GPU types whose names begin so."""
    return _starting_with([gpu.name for gpu in load_gpu_types()], begun)


def complete_model(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The catalogue's models whose names begin so, with or without their owner, and files."""
    names = catalogued_models()
    found = [name for name in names if name.partition("/")[2].lower().startswith(begun.lower())] if begun else []
    return _starting_with(names, begun) or [*map(CompletionItem, found)] or [CompletionItem(begun, type="file")]


def complete_file(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The files whose names begin so: the shell knows them."""
    return [CompletionItem(begun, type="file")]


_NAMED_FILE: Final = MappingProxyType({"metavar": "FILE", "shell_complete": complete_file})

_ENTRIES: Final = (
    # What is asked about: a model and its load.
    Entry(("--gpu",), "GPU type (`plimsoll gpus`), or its name as drivers print it.", None,
          {"shell_complete": complete_gpu}),
    Entry(("--tp",), "Tensor-parallel degree. Default: the fewest GPUs that fit.", _DEGREE),
    Entry(("--pp",), "Pipeline stages, with --tp.", _DEGREE),
    Entry(("--ep",), "Expert parallelism, with --tp.", None, {"is_flag": True}),
    Entry(("--dp",), "Engines that share experts, with --tp.", _DEGREE),
    Entry(("--context-length",), "Longest request in tokens.", _COUNT),
    Entry(("--concurrency",), "Requests of a replica at the same time. Default: 16.", _COUNT),
    Entry(("--prompt",), "Mean prompt tokens, with --output-tokens.", _COUNT),
    Entry(("--output-tokens", "output"), "Mean output tokens, with --prompt.", _COUNT),
    Entry(("--precision",), "Weights: auto, bf16, fp16, fp8, ..."),
    Entry(("--kv-precision",),
          "KV cache: auto, bf16, fp16, fp8, nvfp4, int8, int4, fp8_per_token_head, turboquant_*."),
    Entry(("--engine",), ENGINE_HELP),
    Entry(("--utilization",), "Percent of the GPU's usable memory that the engine may take.", Whole(1, 100)),
    Entry(("--batched-tokens",), "Tokens of an engine step.", Whole(64)),
    Entry(("--max-num-seqs", "max_sequences"), "Most requests of the engine, above --concurrency.", _COUNT),
    Entry(("--eager",), "No CUDA graphs.", None, {"is_flag": True}),
    Entry(("--text-only",), "Without the vision or audio tower.", None, {"is_flag": True}),
    Entry(("--cpu-offload",), "Weights of each GPU to keep in host memory, e.g. 8Gi."),
    Entry(("--host-memory",), "Host memory for the KV cache of finished requests, e.g. 200Gi."),
    Entry(("--lora",), "LoRA slots and their largest rank, e.g. --lora 4 16.", (int, int)),
    Entry(("--speculate",), "Speculative decoding: method and tokens a step, e.g. --speculate Ngram 4.", _drafting),
    Entry(("--draft",), "The head or small model of --speculate Eagle or Draft: a name or a config.json.", None,
          {"shell_complete": complete_model}),
    Entry(("--model",), "The model: a name, a checkpoint folder or a config.json.", None,
          {"shell_complete": complete_model}),
    Entry(("--objective",), "How much speed is worth against dollars.", _one_of),
    Entry(("--name",), "The InferenceDeployment's name. Default: made from the model's."),
    Entry(("--against-engine",), "Another engine, e.g. sglang or sglang:0.5.23: what would it hold, and how fast?"),
    Entry(("--against-price",), "What an API asks for a million tokens of prompts and outputs, e.g. 0.15,0.60: from "
          "when on does a replica of one's own pay?", None, {"metavar": "IN,OUT"}),
    Entry(("--requests-per-day",), "With --against-price: what does a day with so many requests cost?", _COUNT),
    Entry(("--busy-hours",), "Hours of a day in which these requests come. Default: 24.", Whole(1, 24)),
    Entry(("--why",), "Show every formula with its numbers (for one GPU type).", None, {"is_flag": True}),
    # A simulated load.
    Entry(("--preset",), "The requests.", _one_of),
    Entry(("--requests-per-second",), "Rate outside bursts, in place of the preset's.", float),
    Entry(("--spread",), "Standard deviation of lengths over their mean.", float),
    Entry(("--shared-prefix",), "Tokens at the beginning of all prompts that the prefix cache holds.", int),
    Entry(("--shared-percent",), "Percent of the requests that begin with --shared-prefix. Default: 100.",
          Whole(1, 100)),
    Entry(("--burst",), "The rate within a burst over that outside; 1: no bursts.", float),
    Entry(("--burst-seconds",), "How long a burst lasts.", float),
    Entry(("--burst-every",), "Seconds from one burst to the next.", float),
    Entry(("--minutes",), "How long requests come.", float),
    Entry(("--replicas",), "Replicas at the beginning.", int),
    Entry(("--min-replicas",), "The fewest replicas.", int),
    Entry(("--max-replicas",), "The most replicas.", int),
    Entry(("--mode",), "What the live loop may do.", _one_of),
    Entry(("--startup",), "Seconds of a start.", float),
    Entry(("--patience",), "Seconds until a client gives up.", float),
    Entry(("--seed",), "Another seed draws other requests.", int),
    # Files that are read.
    Entry(("-f", "--filename"), "File with manifests, or - for standard input.", None, _NAMED_FILE),
    Entry(("-R", "--recursive"), "Look in the folders below those of -f, too.", None, {"is_flag": True}),
    Entry(("--what-if",), '"+2 h100-sxm-80gb x8" (more nodes), "-l40s" (no such nodes), "NAME.FIELD=VALUE".'),
    Entry(("--fleet",),
          "A file (or -) instead of the cluster: kubectl get nodes,pods,resourcequotas,limitranges,priorityclasses -A "
          "-o yaml.", None, _NAMED_FILE),
    Entry(("--snapshot",), "A file (or -) of `plimsoll fleet export` instead of the cluster.", None,
          _NAMED_FILE),
    Entry(("--prices",), "Own prices: a ConfigMap manifest, or a list in CSV (see `plimsoll prices check`).", None,
          _NAMED_FILE),
    Entry(("--node-groups",), "Nodes that could be added: a list as in the chart's fleet.nodeGroups, or NodePools.",
          None, _NAMED_FILE),
    Entry(("--values",),
          "The chart's values of the operator: objective, gpuVendors, fleet.billing, fleet.overload and "
          "fleet.nodeGroups count.", None, _NAMED_FILE),
    Entry(("--observations",), "A file that `plimsoll learn --save` has written.", None, _NAMED_FILE),
    Entry(("--strict",), "Warnings fail, too.", None, {"is_flag": True}),
    # The cluster.
    Entry(("--kubeconfig",), "The kubeconfig, as for kubectl.", _FILE),
    Entry(("--context",), "A context of the kubeconfig, as for kubectl."),
    Entry(("-n", "--namespace"), "Namespace, as for kubectl."),
    Entry(("--from-cluster",), "Use what the engines of a cluster have reported about their memory.", None,
          {"is_flag": True}),
    Entry(("--dry-run/--no-dry-run", "dry_run"),
          "On a cluster: whether the API server is asked what it would store. Default: it is.", None,
          {"default": True}),
    Entry(("--proposal",), "Id of the proposal, if there are several.", None, {"metavar": "ID"}),
    Entry(("--until",), "A time, or how long: 30m, 4h, 3d. At most 30 days ahead.", None, {"metavar": "TIME"}),
    Entry(("--finding",), "What is wrong, if it must be that: the reason of a condition. Default: what is wrong now.",
          None, {"metavar": "REASON"}),
    Entry(("--reason",), "Why, for those who read it later.", None, {"metavar": "TEXT"}),
    Entry(("--trace",), "Requests that were there, one a line with time and tokens, instead of a workload.", None,
          _NAMED_FILE),
    Entry(("--router", "routers"), "Compare routers: which share of the prompts do replicas find, and how many are "
          "enough?", _one_of),
    Entry(("--host-tokens",), "Tokens of prompts that a replica keeps in host memory.", _COUNT),
    Entry(("--from-prometheus", "span"),
          "The requests that the InferenceDeployment NAME served in this time until now, e.g. 7d, 24h or 90m.", None,
          {"metavar": "SPAN"}),
    Entry(("--prometheus-url",), "Where live use is read. Default: $PLIMSOLL_PROMETHEUS_URL, else nowhere."),
    Entry(("--operator",), "The operator's Lease, which says when it last looked at all objects.", None,
          {"metavar": "NAMESPACE/NAME"}),
    # The answer.
    Entry(("-o", "--output", "form"), "Form of the answer.", _one_of),
    Entry(("--save",), "The file to write.", None, _NAMED_FILE),
    Entry(("--into",), "The folder to make.", None, {"metavar": "FOLDER"}),
    Entry(("--revision",), "Commit, tag or branch of a model on the hub."),
    Entry(("--hash-names",), "Replace names of objects, namespaces and labels by digests.", None, {"is_flag": True}),
    Entry(("--seconds",), "Between pictures.", click.FloatRange(0.5, 3600)),
    Entry(("--once",), "Print one picture and end.", None, {"is_flag": True}),
    # The console's server.
    Entry(("--port",), "0 for any free port.", Whole(0, 65535)),
    Entry(("--allow-approvals",), "Proposals can be answered in the console, under your name.", None,
          {"is_flag": True}),
    Entry(("--grafana-url",), "A Grafana with the chart's dashboard, to link to. Default: no links."),
    Entry(("--logs-url",),
          "A pod's logs, with {namespace}, {deployment} and {pod} in the address. Default: no links."),
    Entry(("--in-cluster",), "Serve many people, in a pod, behind a proxy that signs them in.", None,
          {"is_flag": True}),
    Entry(("--public-host", "public_hosts"), "In a cluster: a host name that browsers send."),
    Entry(("--proxy", "proxies"), "In a cluster: addresses (CIDR) of proxies to believe."),
    Entry(("--token-header",), "In a cluster: the header with the person's token. Default: Authorization."),
    Entry(("--tls-cert",), "In a cluster: the certificate in PEM. Default: no TLS.", _FILE),
    Entry(("--tls-key",), "In a cluster: the certificate's private key.", _FILE),
    Entry(("--ca-file",), "In a cluster: certificates to verify the API server with.", _FILE),
)  # fmt: skip

GLOSSARY: Final[Mapping[str, Entry]] = MappingProxyType({each.long: each for each in _ENTRIES})
"""All options by their long names."""

OF_CONTEXT: Final = "Default: that of the kubeconfig's context."
"""The note of a namespace that follows the context, as it does for kubectl."""

SEVERAL: Final = "May be repeated."

RENAMED: Final[Mapping[str, str]] = MappingProxyType(
    {"--context": "--context-length", "--kube-context": "--context", "--output": "--save", "-o": "--save"}
)
"""Names that options had, and what they are called now. A command that has the old name, too, reads it as its own."""


_ANY_LENGTH: Final = 10_000


class CommandGroup(click.Group):
    """A group whose help has the first sentence of each command whole; click would cut it at the terminal's edge.

    A name that it does not have is answered with the one that is most like it.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument. Raises click's error."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, each.get_short_help_str(_ANY_LENGTH)) for name, each in found if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def option(
    name: str, parameter: str | None = None, *, note: str = "", words: Sequence[str] | None = None, **usage: Any
) -> Callable[[Any], Any]:
    """Return a decorator that adds an option of the glossary to a command.

    Args:
        name: its long name.
        parameter: the command's parameter; None for the glossary's.
        note: what holds for this command alone; it follows the help text.
        words: the words that this command takes, of an option that takes one of a list.
        usage: default, show_default, multiple or required, as click takes them.
    """
    entry = GLOSSARY[name]
    names = entry.names if parameter is None else (*(each for each in entry.names if each[0] == "-"), parameter)
    several = SEVERAL if usage.get("multiple") else ""
    text = " ".join(each for each in (entry.help, note, several) if each)
    kind = entry.kind if words is None else entry.kind(words)
    return click.option(*names, type=kind, help=text, **{**entry.more, **usage})


def output(*words: str) -> Callable[[Any], Any]:
    """Return a decorator that adds ``-o`` with these forms; the first is the usual one."""
    return option("--output", words=words, default=words[0], show_default=True)


def grouped(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, in this order."""

    def add(command: Any) -> Any:
        for each in reversed(options):
            command = each(command)
        return command

    return add
