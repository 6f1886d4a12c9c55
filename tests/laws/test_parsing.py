"""Whatever is written into an object, parsing either takes it or names a field: it never crashes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.api.conversion.convert import check_without_model, to_request, to_workload_options
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import InferenceDeployment, InferenceDeploymentSpec
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import API_VERSION, KIND
from tests.support.planning import model
from tests.support.tables import examples

scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=12)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted(field.alias or name for name, field in InferenceDeploymentSpec.model_fields.items())
lengths = st.integers(1, 9999)
quantities = st.sampled_from(["70Gi", "1.5G", "x"])
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "model": st.fixed_dictionaries({"name": st.sampled_from(["a/b", "x", "", "../x"])}) | anything,
    "contextLength": st.integers(-1, 10**9) | anything,
    "concurrency": st.integers(-1, 10**6) | anything,
    "precision": st.sampled_from(["auto", "fp8", "awq", "bf16", "float"]) | anything,
    "expectedTokens": st.fixed_dictionaries({"prompt": st.integers(1, 9999), "output": st.integers(1, 9999)})
    | anything,
    "engine": st.fixed_dictionaries(
        {},
        optional={
            "version": st.sampled_from(["0.32.0", "0.7", "999.999.999", "x", "1"]),
            "extraArgs": st.lists(st.text(max_size=12) | st.sampled_from(["--dtype=x", "-tp", "--seed"]), max_size=3),
        },
    )
    | anything,
    "gpu": st.fixed_dictionaries({}, optional={"maxHourlyPrice": st.sampled_from(["1", "1.5", "x", "-1"])}) | anything,
    "overrides": st.fixed_dictionaries({}, optional={"memoryPerGpu": quantities}) | anything,
    "podTemplate": st.fixed_dictionaries({}, optional={"env": st.lists(anything, max_size=2)}) | anything,
}
NEEDED = ("model", "contextLength", "concurrency")
specs = st.fixed_dictionaries(
    {name: LIKELY[name] for name in NEEDED},
    optional={name: LIKELY.get(name, anything) for name in FIELDS if name not in NEEDED},
)
bodies = st.fixed_dictionaries(
    {
        "apiVersion": st.just(API_VERSION),
        "kind": st.just(KIND),
        "metadata": st.just({"name": "a"}) | anything,
        "spec": specs | anything,
    }
)


@given(bodies | st.dictionaries(st.text(max_size=8), anything, max_size=4))
@settings(max_examples=examples(200), deadline=None)
def test_an_object_is_taken_or_a_field_of_it_is_named(body: dict[str, Any]) -> None:
    resource = parsed(body)
    if isinstance(resource, InvalidInput):
        assert resource.field
        assert resource.fix
        return
    with suppress(InvalidInput):
        check_without_model(resource.spec)
        to_workload_options(resource)
        assert to_request(resource, model()).replicas == resource.spec.replicas


def parsed(body: dict[str, Any]) -> InferenceDeployment | InvalidInput:
    try:
        return parse_inference_deployment(body)
    except InvalidInput as error:
        return error
