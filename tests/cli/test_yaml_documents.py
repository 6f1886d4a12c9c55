"""Documents of a text: numbers, places of mistakes, and bounds against texts that mean harm."""

from __future__ import annotations

from plimsoll.cli.reading.yaml_documents import MAX_ALIASED, MAX_DEPTH, Broken, Document, read_documents
from tests.support.tables import every_case
from tests.support.work import measured_effort


def values(text: str) -> list[object]:
    return [each.value for each in read_documents(text) if isinstance(each, Document)]


def broken(text: str, *, is_json: bool = False) -> Broken:
    (found,) = (each for each in read_documents(text, is_json=is_json) if isinstance(each, Broken))
    return found


def test_documents_are_numbered_as_a_reader_counts_them() -> None:
    text = "# a comment\n---\na: 1\n---\n---\n# nothing\n--- \nb: |\n  ---\n  c\n...\n"
    assert list(read_documents(text)) == [Document(1, {"a": 1}), Document(2, {"b": "---\nc\n"})]


def test_directives_belong_to_the_document_that_follows() -> None:
    assert values("%YAML 1.1\n---\na: 1\n--- {b: 2}\n") == [{"a": 1}, {"b": 2}]


def test_a_mistake_is_placed_in_the_whole_text_and_the_next_document_is_read() -> None:
    text = "a: 1\n---\nb: 2\nc: d: e\n---\nf: 3\n"
    found = list(read_documents(text))
    assert [type(each) for each in found] == [Document, Broken, Document]
    assert broken(text).number == 2
    assert broken(text).why.startswith("It is not YAML at line 4, column 5: mapping values are not allowed")


def test_json_is_read_with_its_tabs_and_complained_of_as_json() -> None:
    assert values('{\n\t"a": 1\n}') == [{"a": 1}]
    assert broken('{\n\t"a": 1,\n}', is_json=True).why.startswith("It is not YAML at line 3, column 1: as JSON, ")


def test_aliases_are_read_as_long_as_they_stand_for_little() -> None:
    assert values("a: &x {b: [1, 2]}\nc: *x\nd: {<<: *x}\n") == [
        {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": {"b": [1, 2]}}
    ]


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [" + ",".join(["x"] * 10) + "]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


def merging(levels: int) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}" for level in range(1, levels)]
    return "\n".join(lines) + "\n"


BOMBS = {
    "aliases of aliases": (bomb(40), f"more than {MAX_ALIASED} values"),
    "merges of merges": (merging(60), f"more than {MAX_ALIASED} values"),
    "an alias of itself": ("a: &a [*a]\n", "the alias *a stands for itself"),
    "brackets": ("a: " + "[" * 300_000, f"more than {MAX_DEPTH} levels"),
    "dashes": ("- " * 5000 + "x", f"more than {MAX_DEPTH} levels"),
    "brackets in JSON": ('{"a": ' + "[" * 300_000, f"more than {MAX_DEPTH} levels"),
    "an endless number": ("a: " + "9" * 10_000, "Exceeds the limit"),
    "no such day": ("a: 2024-99-99", "month must be in"),
    "a program": ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
    "a control character": ("a: \x00\n", "characters are not allowed"),
}


@every_case(("text", "problem"), BOMBS.values(), ids=BOMBS)
def test_a_text_that_means_harm_is_refused_at_once_and_its_neighbour_is_read(text: str, problem: str) -> None:
    with measured_effort() as spent:
        found = list(read_documents(f"{text}\n---\nhonest: true\n"))
    assert spent.amount < 30
    assert [type(each) for each in found] == [Broken, Document]
    assert isinstance(found[0], Broken)
    assert problem in found[0].why
    assert values(f"{text}\n---\nhonest: true\n") == [{"honest": True}]
