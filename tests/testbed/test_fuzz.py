"""The generator of awkward specs: repeatable, and it leaves no field out."""

from __future__ import annotations

from tests.support.fuzz import SpecFuzzer, leaves, spec_schema

MINIMAL = {"model": {"name": "a/b"}, "contextLength": 4096, "concurrency": 6}


def test_a_seed_and_a_number_make_the_same_spec_every_time() -> None:
    first, second = SpecFuzzer(7, MINIMAL), SpecFuzzer(7, MINIMAL)

    assert [first.spec(number) for number in (5, 3, 900)] == [second.spec(number) for number in (5, 3, 900)]
    assert first.spec(1) != SpecFuzzer(8, MINIMAL).spec(1)


def test_the_first_numbers_visit_every_field_of_the_schema() -> None:
    fuzzer = SpecFuzzer(7, MINIMAL)
    wanted = {".".join(path) for path, _ in leaves(spec_schema())}

    visited = {fuzzer.spec(number)[0].split(", ")[0] for number in range(len(wanted))}

    assert visited == wanted
    assert {"podTemplate.env", "engine.cpuOffload", "model.config", "suspend"} <= wanted


def test_the_minimal_spec_is_left_as_it_was() -> None:
    fuzzer = SpecFuzzer(7, MINIMAL)
    for number in range(200):
        fuzzer.spec(number)

    assert MINIMAL == {"model": {"name": "a/b"}, "contextLength": 4096, "concurrency": 6}
