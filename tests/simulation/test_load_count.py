"""The count of an engine's requests is kept, and not made anew for every route: it must always be right."""

from __future__ import annotations

from random import Random

from plimsoll.simulation.values import Arrival, SimulatedRequest
from tests.support.simulated import engine


def test_the_load_is_all_that_runs_and_waits() -> None:
    rng, tight = Random(5), engine(kv_tokens=1600, max_num_seqs=6)  # noqa: S311 - a test
    now, kept = 0.0, list[SimulatedRequest]()
    for _ in range(300):
        request = SimulatedRequest(Arrival(now, rng.randint(1, 900), rng.randint(1, 300)))
        tight.add(request, now)
        kept.append(request)
        if tight.plan is None:
            tight.begin(now)
        if rng.random() < 0.3:
            gone = [each for each in kept if each.first_token_at is None and each in tight.requests()]
            if gone:
                tight.drop(rng.choice(gone))
        for _ in range(rng.randint(0, 8)):
            if tight.plan is not None:
                now = tight.plan.ends_at
                tight.end()
                tight.begin(now)
            assert tight.load == tight.running + tight.waiting == len(tight.requests())
    assert tight.totals.preemptions
    assert tight.totals.finished
