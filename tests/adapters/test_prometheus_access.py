"""Prometheus as people have it: behind tokens, passwords, certificates, tenants, and with other labels."""

from __future__ import annotations

import ssl
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.prometheus.access import LABEL_PAIRS, LARGEST_FILE_BYTES, PrometheusAccess
from plimsoll.adapters.prometheus.engine_series import read_names
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.app.settings import Settings
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.registry import engine_of
from plimsoll.rebalance.signals.metrics import SignalState
from plimsoll.rebalance.signals.reading import Reading
from tests.adapters.certificates import Authority, Signed
from tests.adapters.fake_prometheus import Answer, FakePrometheus, Query, matrix, send_json, serving

NOW = 1_700_000_000.0
USAGE = "vllm:kv_cache_usage_perc"
VARIABLE = "PLIMSOLL_PROMETHEUS_"


def usage(namespace_label: str = "namespace", pod_label: str = "pod") -> Any:
    labels = {"__name__": USAGE, "engine": "0", namespace_label: "chat", pod_label: "llama-0"}
    return {"metric": labels, "values": [[NOW - 5, "0.5"]]}


def found(request: BaseHTTPRequestHandler, _: Query) -> None:
    send_json(request, matrix(usage()))


def read(signals: PrometheusSignals) -> Reading:
    return signals.read("chat", ["llama-0"], window_seconds=300, now=NOW)


def headers_of(access: PrometheusAccess) -> dict[str, str]:
    """The headers of a reading that succeeded."""
    with serving(NOW, found) as fake:
        assert read(PrometheusSignals(fake.url, access=access)).pods
    return fake.headers[-1]


def written(folder: Path, text: str, name: str = "file") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_without_settings_nothing_is_proved() -> None:
    assert not {"Authorization", "X-Scope-OrgID"} & set(headers_of(PrometheusAccess()))


def test_a_token_is_read_anew_for_every_reading(tmp_path: Path) -> None:
    file = written(tmp_path, "first\n")
    with serving(NOW, found) as fake:
        signals = PrometheusSignals(fake.url, access=PrometheusAccess(token_file=file))
        assert read(signals).pods
        file.write_text("second")
        assert read(signals).pods
    assert [each["Authorization"] for each in fake.headers] == ["Bearer first"] * 2 + ["Bearer second"]


def test_a_user_and_a_password_are_sent_as_basic_authentication(tmp_path: Path) -> None:
    access = PrometheusAccess(user="Aladdin", password_file=written(tmp_path, "open sesame\n"))

    # The example of RFC 7617, section 2.
    assert headers_of(access)["Authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


def test_headers_of_a_file_are_sent(tmp_path: Path) -> None:
    access = PrometheusAccess(headers_file=written(tmp_path, "X-Scope-OrgID: team-a\n\nX-Other:  b:c \n"))

    sent = headers_of(access)

    assert (sent["X-Scope-OrgID"], sent["X-Other"]) == ("team-a", "b:c")


def test_no_proof_is_sent_on_to_where_a_redirect_points(tmp_path: Path) -> None:
    access = PrometheusAccess(token_file=written(tmp_path, "secret"))
    with serving(NOW, found) as other:

        def elsewhere(request: BaseHTTPRequestHandler, _: Query) -> None:
            request.send_response(307)
            request.send_header("Location", other.url + request.path)
            request.send_header("Content-Length", "0")
            request.end_headers()

        with serving(NOW, elsewhere) as fake:
            reading = read(PrometheusSignals(fake.url, access=access))
    assert (reading.error, other.headers) == ("Prometheus answered HTTP 307", [])


SECRET = "hunter2"  # noqa: S105 - it must not appear anywhere


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("token_file", None, "Mount a text file there that the operator can read (FileNotFoundError)"),
        ("token_file", " \n", "The file is empty"),
        ("token_file", f"{SECRET}\nX-Other: 1", "in a single line of ASCII"),
        ("token_file", f"{SECRET}é", "in a single line of ASCII"),
        ("token_file", SECRET * LARGEST_FILE_BYTES, "The file is too large"),
        ("headers_file", f"X-Good: 1\n{SECRET}", "line 2' cannot be used. Write lines of 'Name: value'"),
        ("headers_file", f"X Bad: {SECRET}", "line 1' cannot be used. Write lines of 'Name: value'"),
        ("headers_file", f"Host: {SECRET}", "Remove Host"),
        ("ca_file", None, "Mount a text file there"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_its_contents_are_not(
    tmp_path: Path, field: str, text: str | None, says: str
) -> None:
    file = tmp_path / "given"
    if text is not None:
        file.write_text(text)
    made: dict[str, Any] = {field: file}
    with serving(NOW, found) as fake:
        reading = read(PrometheusSignals(fake.url, access=PrometheusAccess(**made)))
    assert reading.state is SignalState.UNAVAILABLE
    assert reading.error.startswith(f"{VARIABLE}{field.upper()}: '{file}")
    assert says in reading.error
    assert SECRET not in reading.error
    assert fake.headers == []


def test_a_password_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"\xff\xfe")
    with serving(NOW, found) as fake:
        reading = read(PrometheusSignals(fake.url, access=PrometheusAccess(user="a", password_file=file)))
    assert reading.error.startswith(f"{VARIABLE}PASSWORD_FILE")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def client(ours: Authority) -> Signed:
    return ours.sign("client")


def serving_tls(ours: Authority, *, asks_for_certificate: bool) -> AbstractContextManager[FakePrometheus]:
    """A Prometheus behind TLS. Its certificate is signed by the authority."""
    server = ours.sign("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    if asks_for_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(ours.file)
    return serving(NOW, found, tls=context)


def test_a_server_is_verified_with_the_given_authority(ours: Authority) -> None:
    with serving_tls(ours, asks_for_certificate=False) as fake:
        reading = read(PrometheusSignals(fake.url, access=PrometheusAccess(ca_file=ours.file)))
    assert list(reading.pods) == ["llama-0"]


def test_a_server_of_another_authority_gets_no_token(ours: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    access = PrometheusAccess(ca_file=other.file, token_file=written(tmp_path, "secret"))
    with serving_tls(ours, asks_for_certificate=False) as fake:
        reading = read(PrometheusSignals(fake.url, access=access))
    assert (reading.state, reading.error) == (
        SignalState.UNAVAILABLE,
        "Prometheus cannot be reached (SSLError)",
    )
    assert fake.headers == []


def test_a_server_that_asks_for_a_certificate_gets_it(ours: Authority, client: Signed) -> None:
    access = PrometheusAccess(ca_file=ours.file, certificate_file=client.certificate, key_file=client.key)
    with serving_tls(ours, asks_for_certificate=True) as fake:
        reading = read(PrometheusSignals(fake.url, access=access))
        without = read(PrometheusSignals(fake.url, access=PrometheusAccess(ca_file=ours.file)))
    assert list(reading.pods) == ["llama-0"]
    assert without.state is SignalState.UNAVAILABLE


def refusing(status: int) -> Answer:
    """A managed service: it takes no regular expression for a name."""

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        if "__name__" in query["query"]:
            send_json(request, {"status": "error", "error": "no regex on __name__"}, status=status)
        else:
            send_json(request, matrix(*([usage()] if query["query"].startswith(f"{USAGE}{{") else [])))

    return answer


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_regular_expressions_for_names_is_asked_name_by_name(status: int) -> None:
    with serving(NOW, refusing(status)) as fake:
        signals = PrometheusSignals(fake.url)
        first = read(signals)
        asked = len(fake.queries)
        second = read(signals)
    wanted = set(read_names(engine_of().metrics))
    assert first == second
    assert first.pods["llama-0"].samples[0].kv_usage == 0.5
    names = [each["query"].partition("{")[0] for each in fake.queries[1:asked]]
    assert set(names) == wanted | {""}
    assert names.count("") == 1, "whether it is the regular expression is asked once"
    assert len(fake.queries) - asked == len(wanted), "the refused query is not tried again"


def test_a_query_that_is_refused_for_what_one_tenants_engines_report_changes_no_other_query() -> None:
    """Prometheus and Mimir refuse a query that finds too many samples with 422. Asked by name, each part may pass."""

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        is_large = "__name__" in query["query"] and "bulk-0" in query["query"]
        if is_large:
            send_json(request, {"status": "error", "error": "too many samples"}, status=422)
        else:
            found(request, query)

    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        signals.read("foreign", ["bulk-0"], window_seconds=300, now=NOW)
        asked = len(fake.queries)
        assert list(read(signals).pods) == ["llama-0"]
    assert len(fake.queries) == asked + 1, "the neighbour is asked about by one query"


@pytest.mark.parametrize("status", [403, 500, 503])
def test_another_error_is_no_reason_to_ask_name_by_name(status: int) -> None:
    with serving(NOW, refusing(status)) as fake:
        reading = read(PrometheusSignals(fake.url))
    assert reading.error == f"Prometheus answered HTTP {status}: no regex on __name__"
    assert len(fake.queries) == 1


def test_a_server_that_refuses_everything_is_quoted_on_the_first_query() -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        number = "one" if "__name__" in query["query"] else "two"
        send_json(request, {"status": "error", "error": number}, status=400)

    with serving(NOW, answer) as fake:
        signals = PrometheusSignals(fake.url)
        assert read(signals).error == "Prometheus answered HTTP 400: one"
        fake.answer = found
        assert read(signals).pods, "a regular expression is tried again"


def test_a_pod_that_is_not_there_costs_few_queries_name_by_name() -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        send_json(request, matrix(), status=400 if "__name__" in query["query"] else 200)

    with serving(NOW, answer) as fake:
        assert read(PrometheusSignals(fake.url)) == Reading()
    assert len(fake.queries) == 2 + 2 * len(LABEL_PAIRS)


@pytest.mark.parametrize("pair", LABEL_PAIRS)
def test_the_usual_labels_of_a_pod_are_known(pair: tuple[str, str]) -> None:
    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        send_json(request, matrix(*([usage(*pair)] if f',{pair[1]}=~"' in query["query"] else [])))

    with serving(NOW, answer) as fake:
        assert list(read(PrometheusSignals(fake.url)).pods) == ["llama-0"]


def test_other_labels_are_set() -> None:
    pairs = Settings.from_environment({f"{VARIABLE}LABELS": "k8s_namespace_name/k8s_pod_name, ns/po"}).prometheus_labels
    assert pairs == (("k8s_namespace_name", "k8s_pod_name"), ("ns", "po"))

    def answer(request: BaseHTTPRequestHandler, query: Query) -> None:
        send_json(request, matrix(*([usage("ns", "po")] if ',po=~"' in query["query"] else [])))

    with serving(NOW, answer) as fake:
        assert list(read(PrometheusSignals(fake.url, label_pairs=pairs)).pods) == ["llama-0"]
    assert [each["query"].split(",")[-3:-1] for each in fake.queries] == [
        ['k8s_namespace_name="chat"', 'ns=~"|chat"'],
        ['ns="chat"', 'k8s_namespace_name=~"|chat"'],
    ]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"TOKEN_FILE": "token"}, "TOKEN_FILE: 'token' cannot be used. Write the absolute path of a file."),
        ({"USER": "a"}, "USER: 'a' cannot be used. It needs PLIMSOLL_PROMETHEUS_PASSWORD_FILE as well."),
        ({"PASSWORD_FILE": "/p"}, "PASSWORD_FILE: '/p' cannot be used. It needs PLIMSOLL_PROMETHEUS_USER as well."),
        ({"KEY_FILE": "/k"}, "KEY_FILE: '/k' cannot be used. It needs PLIMSOLL_PROMETHEUS_CERTIFICATE_FILE as well."),
        ({"TOKEN_FILE": "/t", "USER": "a", "PASSWORD_FILE": "/p"}, "A request has one Authorization header"),
        ({"USER": "a:b", "PASSWORD_FILE": "/p"}, "A user of basic authentication has no colon."),
        ({"LABELS": "namespace"}, "LABELS: 'namespace' cannot be used. Write NAMESPACE_LABEL/POD_LABEL"),
        ({"LABELS": 'a/b"} or up{c="'}, "Write NAMESPACE_LABEL/POD_LABEL"),
    ],
)
def test_a_setting_that_cannot_be_used_stops_the_operator_and_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Settings.from_environment({f"{VARIABLE}{name}": value for name, value in given.items()})
    assert str(error.value).startswith(VARIABLE)
    assert named in str(error.value)


def test_good_settings_are_read() -> None:
    files = {name: f"/etc/{name.lower()}" for name in ("TOKEN_FILE", "CERTIFICATE_FILE", "KEY_FILE", "CA_FILE")}
    given = {f"{VARIABLE}{name}": value for name, value in files.items()}
    settings = Settings.from_environment(given | {f"{VARIABLE}HEADERS_FILE": "/etc/headers"})
    assert settings.prometheus_access == PrometheusAccess(
        token_file=Path("/etc/token_file"),
        certificate_file=Path("/etc/certificate_file"),
        key_file=Path("/etc/key_file"),
        ca_file=Path("/etc/ca_file"),
        headers_file=Path("/etc/headers"),
    )
    assert settings.prometheus_labels == LABEL_PAIRS
