"""Every rule of the CRD is applied without an API server, too."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from plimsoll.api.cel.expressions import expression
from plimsoll.api.cel.values import CelError
from plimsoll.api.crd.rules import check_rules, with_defaults
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.domain.errors import InvalidInput
from tests.support.broken_rules import NAMES, SPECS, broken_manifests, crd_rules
from tests.support.tables import every_case

BROKEN = broken_manifests("default")


def minimal(**spec: Any) -> dict[str, Any]:
    (_, manifest), *_ = BROKEN
    return manifest | {"metadata": {"name": "good"}, "spec": manifest["spec"] | spec}


@every_case(("message", "manifest"), BROKEN, ids=[message for message, _ in BROKEN])
def test_a_manifest_that_breaks_a_rule_is_refused_with_the_rule_s_message(
    message: str, manifest: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        check_rules(manifest)
    assert refused.value.field


def test_there_is_such_a_manifest_for_every_rule() -> None:
    rules = Counter(message for _, message in crd_rules())
    covered = [message for message in rules if any(part in message for part in (*SPECS, *NAMES))]
    assert sorted(set(rules) - set(covered)) == []
    for message, count in rules.items():
        parts = [part for part in SPECS if part in message]
        given = sum(len(SPECS[part]) for part in parts) + sum(part in message for part in NAMES)
        assert given >= count, message


def test_a_good_manifest_breaks_no_rule_with_and_without_optional_parts() -> None:
    check_rules(minimal())
    check_rules(
        minimal(
            expectedTokens={"prompt": 4000, "output": 4192},
            engine={"extraArgs": ["--enable-prefix-caching"], "lora": {"maxAdapters": 1, "maxRank": 16}},
            podTemplate={"labels": {"a.b/c": "d"}, "volumeMounts": [{"name": "cache", "mountPath": "/else"}]},
        )
    )


def test_an_entry_that_a_list_may_hold_once_is_refused_as_the_api_server_does() -> None:
    twice = {"env": [{"name": "A", "value": "b"}, {"name": "A", "value": "c"}]}
    with pytest.raises(InvalidInput, match=r"^spec\.podTemplate\.env\[1\]: .* holds it already"):
        check_rules(minimal(podTemplate=twice))


def test_defaults_are_those_that_the_models_have() -> None:
    filled = with_defaults(minimal(engine={"version": "0.30.0"}))
    assert (filled["spec"]["replicas"], filled["spec"]["engine"]["textOnly"]) == (1, False)
    assert filled["spec"]["engine"]["version"] == "0.30.0"
    assert (
        parse_inference_deployment(filled).spec
        == parse_inference_deployment(minimal(engine={"version": "0.30.0"})).spec
    )


EXPRESSIONS: dict[str, object] = {
    "1 + 2 - 1 == 2 && !false": True,
    "self.a in ['x', 'y'] ? 1 : 2": 1,
    "[1, 2, 3].filter(n, n > 1).size()": 2,
    "self.missing == 1 || self.a == 'x'": True,
    "self.a != 'x' && self.missing": False,
    "'ab\\n'.matches('b$')": False,
    "self.all(k, k.matches(r'^[a-z]$'))": True,
    "size(self.b) == 2 && self.b[0:1]": CelError,
    "self.missing == 1": CelError,
    "1 == '1'": False,
    "true == 1": False,
    "has(self.a) && !has(self.c)": True,
}


@every_case(("text", "value"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_expressions_have_the_values_of_the_language(text: str, value: object) -> None:
    scope = {"self": {"a": "x", "b": [1, 2]}}
    if value is CelError:
        with pytest.raises(CelError):
            expression(text)(scope)
    else:
        assert expression(text)(scope) == value
