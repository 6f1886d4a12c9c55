"""``plimsoll simulate``."""

from __future__ import annotations

import json
from typing import Any

import click

from plimsoll.cli.questions.engine_names import HELP as ENGINE_HELP
from plimsoll.cli.questions.names import meant_types
from plimsoll.cli.screen import say, screen
from plimsoll.cli.simulations.answers import print_simulation, simulation_document
from plimsoll.cli.simulations.simulation_question import DEFAULT_MOST_REPLICAS, Simulated, simulation_run_of
from plimsoll.rebalance.state.memory import FIRST_STARTUP_SECONDS
from plimsoll.rebalance.state.policy import Mode
from plimsoll.simulation.run import USUAL_PATIENCE_SECONDS
from plimsoll.simulation.simulate import simulate
from plimsoll.simulation.workload import PRESETS

_NAMES = [each.name for each in PRESETS]


@click.command("simulate")
@click.argument("model")
@click.option("--gpu", required=True, help="GPU type (`plimsoll gpus`), or its name as drivers print it.")
@click.option("--tp", type=click.IntRange(1, 64), help="Tensor-parallel degree. Default: the fewest GPUs that fit.")
@click.option("--context", type=click.IntRange(1), help="Longest request. Default: it holds twice the mean request.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests at the same time of a replica. Default: 16.")
@click.option("--engine", help=ENGINE_HELP)
@click.option("--preset", type=click.Choice(_NAMES), default=_NAMES[0], show_default=True, help="The requests.")
@click.option("--requests-per-second", type=float, help="Rate outside bursts, in place of the preset's.")
@click.option("--prompt", type=int, help="Mean prompt tokens, in place of the preset's.")
@click.option("--output-tokens", "output", type=int, help="Mean output tokens, in place of the preset's.")
@click.option("--spread", type=float, help="Standard deviation of lengths over their mean.")
@click.option("--shared-prefix", type=int, help="Tokens at the beginning of all prompts that the prefix cache holds.")
@click.option("--burst", type=float, help="The rate within a burst over that outside; 1: no bursts.")
@click.option("--burst-seconds", type=float, help="How long a burst lasts.")
@click.option("--burst-every", type=float, help="Seconds from one burst to the next.")
@click.option("--minutes", type=float, help="How long requests come.")
@click.option("--replicas", type=int, default=1, show_default=True, help="Replicas at the beginning.")
@click.option("--min-replicas", type=int, default=1, show_default=True, help="The fewest replicas.")
@click.option("--max-replicas", type=int, default=DEFAULT_MOST_REPLICAS, show_default=True, help="The most replicas.")
@click.option("--mode", type=click.Choice([each.value for each in Mode]), default=Mode.AUTO.value, show_default=True)
@click.option("--startup", type=float, default=FIRST_STARTUP_SECONDS, show_default=True, help="Seconds of a start.")
@click.option(
    "--patience", type=float, default=USUAL_PATIENCE_SECONDS, show_default=True, help="Seconds until a client gives up."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed draws other requests.")
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def command(model: str, gpu: str, mode: str, form: str, **asked: Any) -> None:
    """Say what happens to MODEL at a load: when KV cache or sequence slots fill, and what the live loop does when.

    Nothing runs: engines, requests and the clock are simulated, with the estimate's KV cache and the performance
    model's times. Every change has a place. The same options always give the same answer.
    """
    meant = meant_types((gpu,))
    simulation_run = simulation_run_of(Simulated(model=model, gpu=meant.types[0], mode=Mode(mode), **asked))
    result = simulate(simulation_run)
    say("note", meant.notes)
    if form == "json":
        click.echo(json.dumps({**simulation_document(simulation_run, result), "notes": list(meant.notes)}, indent=2))
    else:
        print_simulation(screen(), simulation_run, result)
