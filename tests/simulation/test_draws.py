"""Draws without Python's random: known values, and the shape of what is drawn."""

from __future__ import annotations

from statistics import fmean, pstdev

import pytest

from plimsoll.simulation.draws import Draws, mixed, seed_for


def test_the_generator_is_splitmix64() -> None:
    # The first three numbers of seed 0 in the reference implementation (prng.di.unimi.it/splitmix64.c).
    golden = 0x9E3779B97F4A7C15
    found = [mixed(number * golden) for number in (1, 2, 3)]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_the_same_seed_draws_the_same_and_another_one_does_not() -> None:
    ours, again, other = Draws(7), Draws(7), Draws(8)
    first = [ours.unit() for _ in range(100)]
    assert first == [again.unit() for _ in range(100)]
    assert first != [other.unit() for _ in range(100)]
    assert seed_for(1, "moments") != seed_for(1, "lengths")
    assert seed_for(1, "moments") != seed_for(2, "moments")


def test_draws_have_the_mean_and_the_spread_of_their_distributions() -> None:
    chance, count = Draws(3), 20_000
    even = [chance.uniform(2, 4) for _ in range(count)]
    assert 2 <= min(even) < 2.01
    assert 3.99 < max(even) < 4
    assert fmean(even) == pytest.approx(3, abs=0.02)
    assert fmean(chance.gap() for _ in range(count)) == pytest.approx(1, abs=0.03)
    normal = [chance.normal() for _ in range(count)]
    assert (fmean(normal), pstdev(normal)) == pytest.approx((0, 1), abs=0.03)


def test_a_choice_is_one_of_all_and_a_sample_has_none_twice() -> None:
    chance, letters = Draws(5), "abcde"
    assert {chance.choice(letters) for _ in range(200)} == set(letters)
    assert sorted(chance.sample(letters, 5)) == list(letters)
    assert len(chance.sample(letters, 9)) == 5
    with pytest.raises(IndexError):
        chance.choice("")
