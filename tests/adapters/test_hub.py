"""Facts from a hub: what is asked, what is kept, and what a refusal becomes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.hub.circuit_breaker import FAILURES_TO_OPEN
from plimsoll.adapters.hub.hub import AccessRefused, HubModels
from plimsoll.domain.errors import InvalidInput, ModelNotFound, RateLimited, SourceUnavailable, UnsupportedModel
from plimsoll.domain.models.model import FactsSource
from plimsoll.domain.models.precision import KvPrecision, Precision
from testbed.waiting import wait_until
from tests.adapters.fake_hub import COMMIT, FakeHub

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 1024,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "torch_dtype": "bfloat16",
    "vocab_size": 256,
}
NAME = "org/tiny"


def test_a_model_is_read_with_its_exact_count(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG, total=123_456)
    facts = models.facts(NAME, None, None)
    assert (facts.name, facts.source, facts.revision) == (NAME, FactsSource.HUB, None)
    assert (facts.layers, facts.parameters) == (2, 123_456)


def test_a_hub_without_metadata_leaves_the_count_open(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    assert models.facts(NAME, None, None).parameters is None


@pytest.mark.parametrize("is_listed", [True, False])
def test_files_by_which_an_engine_tells_formats_are_known_where_the_hub_lists_them(
    hub: FakeHub, models: HubModels, *, is_listed: bool
) -> None:
    hub.publish(NAME, CONFIG)
    model = hub.models[NAME]
    model.is_listed = is_listed
    model.files |= dict.fromkeys(("params.json", "tekken.json", "original/params.json", "README.md"), b"{}")
    model.files |= dict.fromkeys(("consolidated.safetensors", "model-00001-of-00002.safetensors"), b"")
    known = {"config.json", "params.json", "tekken.json", "consolidated.safetensors"}
    assert models.facts(NAME, None, None).files == (known if is_listed else None)


def test_a_list_of_files_without_end_is_not_kept(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.models[NAME].files |= dict.fromkeys((f"{number}.json" for number in range(100)), b"{}")
    assert models.facts(NAME, None, None).files is None


def test_a_known_model_is_not_asked_for_again(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    first = models.facts(NAME, None, None)
    asked = len(hub.requests)
    assert models.facts(NAME, None, None) is first
    assert len(hub.requests) == asked


@pytest.mark.parametrize("revision", ["v2", COMMIT, "refs/pr/3"])
def test_a_revision_is_asked_for_by_name(hub: FakeHub, models: HubModels, revision: str) -> None:
    hub.publish(NAME, CONFIG, revisions={revision: COMMIT})
    assert models.facts(NAME, revision, None).revision == revision
    assert all(revision in request for request in hub.requests)


def test_the_sidecar_of_modelopt_is_read(hub: FakeHub, models: HubModels) -> None:
    sidecar = {
        "producer": {"name": "modelopt", "version": "0.19.0"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    hub.publish(NAME, CONFIG).files["hf_quant_config.json"] = json.dumps(sidecar).encode()
    checkpoint = models.facts(NAME, None, None).checkpoint
    assert (checkpoint.precision, checkpoint.kv_precision) == (Precision.FP8, KvPrecision.FP8)


def test_an_unknown_model_is_not_found(models: HubModels) -> None:
    with pytest.raises(ModelNotFound, match=r"org/none at revision main was not found\. Check the name.* set HF_TOKEN"):
        models.facts("org/none", None, None)


def test_an_unknown_revision_is_not_found(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    with pytest.raises(ModelNotFound, match=r"model org/tiny at revision v9 does not exist: .* no such revision"):
        models.facts(NAME, "v9", None)


def test_a_model_without_configuration_is_not_found(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG).files.clear()
    with pytest.raises(ModelNotFound, match=r"holds no config\.json"):
        models.facts(NAME, None, None)


def test_a_name_the_hub_cannot_have_is_not_found(models: HubModels) -> None:
    with pytest.raises(ModelNotFound, match="owner/name"):
        models.facts("a/b/c", None, None)


def test_a_gated_model_needs_the_right_token(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_right",), gated=True)
    for token in (None, "hf_wrong"):
        with pytest.raises(ModelNotFound, match=r"is gated\. Accept its licence .* set HF_TOKEN, or"):
            models.facts(NAME, None, token)
    assert models.facts(NAME, None, "hf_right\n").layers == 2


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None),
        ({"Retry-After": "30"}, 30),
        ({"RateLimit": '"resolvers";r=0;t=55'}, 55),
        ({"Retry-After": "30", "RateLimit": '"api";r=0;t=55'}, 30),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"Retry-After": "-5", "RateLimit": "nonsense"}, None),
    ],
)
def test_a_limit_of_the_rate_is_named_as_such_with_its_pause(
    hub: FakeHub, models: HubModels, headers: dict[str, str], pause: int | None
) -> None:
    hub.publish(NAME, CONFIG)
    hub.limit = headers
    with pytest.raises(RateLimited, match=r"limits the rate of requests \(HTTP 429\)\..* set HF_TOKEN$") as limited:
        models.facts(NAME, None, None)
    assert limited.value.pause_seconds == pause
    assert isinstance(limited.value, SourceUnavailable)
    hub.limit = None
    assert models.facts(NAME, None, None).layers == 2


def test_a_limit_of_the_rate_does_not_hide_what_was_read_before(hub: FakeHub, tmp_path: Path) -> None:
    hub.publish(NAME, CONFIG)
    assert HubModels(tmp_path).facts(NAME, None, None).layers == 2
    hub.limit = {"Retry-After": "30"}
    assert HubModels(tmp_path).facts(NAME, None, None).layers == 2


def test_one_readers_private_model_is_not_shown_to_another(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_mine",))
    models.facts(NAME, None, "hf_mine")
    with pytest.raises(ModelNotFound, match="private or gated"):
        models.facts(NAME, None, "hf_other")
    hub.down = True
    with pytest.raises(SourceUnavailable):
        models.facts(NAME, None, "hf_other")


def test_the_token_of_the_environment_is_used(hub: FakeHub, models: HubModels, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_ours",))
    monkeypatch.setenv("HF_TOKEN", "hf_ours")
    assert models.facts(NAME, None, None).layers == 2


def test_a_hub_that_is_down_is_unavailable(hub: FakeHub, models: HubModels) -> None:
    hub.down = True
    with pytest.raises(
        SourceUnavailable,
        match=r"model org/tiny at revision main could not be read from the hub: the hub at http://127.* HTTP 503",
    ):
        models.facts(NAME, None, None)
    assert len(hub.requests) == 1


def test_a_hub_that_does_not_answer_is_unavailable(hub: FakeHub, tmp_path: Path) -> None:
    hub.silent = True
    with pytest.raises(SourceUnavailable, match=r"no whole answer within 0\.2 s"):
        HubModels(tmp_path, timeout_seconds=0.2).facts(NAME, None, None)


def test_nobody_at_the_address_is_unavailable(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub.url
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(SourceUnavailable, match="ConnectError"):
        HubModels(tmp_path, timeout_seconds=1).facts(NAME, None, None)


@pytest.mark.parametrize("offline", [True, False])
def test_an_earlier_download_stands_in(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, offline: bool
) -> None:
    hub.publish(NAME, CONFIG, revisions={"v1": COMMIT}, total=123_456)
    HubModels(tmp_path).facts(NAME, "v1", None)
    hub.down = True
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    facts = HubModels(tmp_path).facts(NAME, "v1", None)
    assert (facts.layers, facts.parameters) == (2, None)
    with pytest.raises(SourceUnavailable):
        HubModels(tmp_path).facts("org/other", "v1", None)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"[" * 20_000])
def test_a_configuration_that_is_no_object_is_named(hub: FakeHub, models: HubModels, content: bytes) -> None:
    hub.publish(NAME, content)
    with pytest.raises(InvalidInput, match=r"config\.json"):
        models.facts(NAME, None, None)


def test_a_huge_configuration_is_refused_by_its_length(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, b" " * (5 * 1024**2))
    with pytest.raises(InvalidInput, match="more than 4194304 bytes"):
        models.facts(NAME, None, None)
    assert [request.split()[0] for request in hub.requests] == ["GET"]


@pytest.mark.parametrize("value", [b"[]", b"{}", b'"a"', b"1"])
def test_a_configuration_of_a_million_values_is_not_parsed(hub: FakeHub, models: HubModels, value: bytes) -> None:
    hub.publish(NAME, b'{"a": [' + b",".join([value] * 1_000_000) + b"]}")
    with pytest.raises(InvalidInput, match="more than 200000 values"):
        models.facts(NAME, None, None)


def test_an_unsupported_model_says_so_and_is_asked_for_again(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG | {"quantization_config": {"quant_method": "aqlm"}})
    with pytest.raises(UnsupportedModel, match="quantization method 'aqlm'"):
        models.facts(NAME, None, None)
    hub.publish(NAME, CONFIG)
    hub.models[NAME].revisions = {"main": "b" * 40}
    assert models.facts(NAME, None, None).layers == 2


@pytest.mark.parametrize("revision", ["../../etc/passwd", "a/../../b", "/etc", "", "a b", "a\nb", "-x"])
def test_a_revision_that_is_none_is_refused_before_anything_is_asked(
    hub: FakeHub, models: HubModels, revision: str
) -> None:
    with pytest.raises(InvalidInput, match="revision"):
        models.facts(NAME, revision, None)
    assert not hub.requests


def test_a_token_that_is_none_is_refused_without_showing_it(hub: FakeHub, models: HubModels) -> None:
    with pytest.raises(InvalidInput, match="token") as refusal:
        models.facts(NAME, None, "hf_sec\nret")
    assert "hf_sec" not in str(refusal.value)
    assert not hub.requests


def test_a_cache_folder_that_cannot_be_written_costs_no_look_up(hub: FakeHub, tmp_path: Path) -> None:
    hub.publish(NAME, CONFIG)
    (tmp_path / "file").write_text("")
    assert HubModels(tmp_path / "file").facts(NAME, None, None).layers == 2


def test_a_plain_mirror_that_names_no_errors_needs_no_sidecar(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.codes = False
    assert models.facts(NAME, None, None).layers == 2
    with pytest.raises(ModelNotFound, match="revision main was not found"):
        models.facts("org/other", None, None)


def test_a_sidecar_that_is_gone_does_not_stand_in_later(hub: FakeHub, tmp_path: Path) -> None:
    sidecar = {"quantization": {"quant_algo": "FP8"}}
    hub.publish(NAME, CONFIG).files["hf_quant_config.json"] = json.dumps(sidecar).encode()
    assert HubModels(tmp_path).facts(NAME, None, None).checkpoint.precision is Precision.FP8
    del hub.models[NAME].files["hf_quant_config.json"]
    assert HubModels(tmp_path).facts(NAME, None, None).checkpoint.precision is Precision.BF16
    hub.down = True
    assert HubModels(tmp_path).facts(NAME, None, None).checkpoint.precision is Precision.BF16


def test_what_only_others_may_read_is_known_as_such(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_right",))
    with pytest.raises(AccessRefused):
        models.facts(NAME, None, "hf_wrong")
    with pytest.raises(ModelNotFound) as missing:
        models.facts(NAME, "v9", "hf_right")
    assert not isinstance(missing.value, AccessRefused)


def test_a_hub_that_never_answers_is_soon_not_asked_any_more(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.down = True
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(SourceUnavailable, match="HTTP 503"):
            models.facts(NAME, None, None)
    hub.down = False
    with pytest.raises(SourceUnavailable, match=r"the hub at http://127\.0\.0\.1:\d+ has not answered since 20"):
        models.facts(NAME, None, None)
    assert len(hub.requests) == FAILURES_TO_OPEN


def test_an_asker_whose_models_hang_closes_the_hub_to_nobody_else(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.down = True
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(SourceUnavailable, match="HTTP 503"):
            models.facts(NAME, None, None, asker="team-a")
    hub.down = False
    with pytest.raises(SourceUnavailable, match="has not answered since"):
        models.facts(NAME, None, None, asker="team-a")
    assert models.facts(NAME, None, None, asker="team-b").layers == 2


def test_an_address_without_anybody_is_closed_to_all(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.url
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    models = HubModels(tmp_path)
    for number in range(FAILURES_TO_OPEN):
        with pytest.raises(SourceUnavailable, match=r"cannot be reached \(ConnectError\)"):
            models.facts(NAME, None, None, asker=f"team-{number}")
    with pytest.raises(SourceUnavailable, match=r"the hub at http://127\.0\.0\.1:1 has not answered since"):
        models.facts(NAME, None, None, asker="team-b")


@pytest.mark.parametrize("address", ["hub.internal", "http://[::bad", "ftp://hub", "/"])
def test_an_address_that_is_none_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(SourceUnavailable):
        HubModels(tmp_path, timeout_seconds=1).facts(NAME, None, None)


def test_an_asker_that_waits_is_no_sign_that_the_hub_is_back(hub: FakeHub, models: HubModels) -> None:
    hub.publish(NAME, CONFIG)
    hub.down = True
    for _ in range(FAILURES_TO_OPEN + 3):
        with pytest.raises(SourceUnavailable):
            models.facts(NAME, None, None, asker="team-a")
    assert len(hub.requests) == FAILURES_TO_OPEN


def test_refusals_are_answers_and_close_nothing(hub: FakeHub, models: HubModels) -> None:
    for number in range(2 * FAILURES_TO_OPEN):
        with pytest.raises(ModelNotFound):
            models.facts(f"org/none-{number}", None, None)
    hub.publish(NAME, CONFIG)
    assert models.facts(NAME, None, None).layers == 2


def test_closing_ends_what_waits_for_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    hub.silent = True
    models = HubModels(tmp_path, timeout_seconds=600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(models.facts, NAME, None, None)
        wait_until(lambda: hub.requests, 60, "the request at the hub")
        models.close()
        with pytest.raises(SourceUnavailable, match="stopping"):
            waiting.result(60)
