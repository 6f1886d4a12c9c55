"""Engines on loopback: each has an address of its own, and all have the same port, as pods do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

from tests.adapters.fake_prometheus import send_bytes

Serve = Callable[[BaseHTTPRequestHandler], None]

PAGE = """\
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.5
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="llama"} 3.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama"} 4.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",kv_cache_size_tokens="1500"} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="llama"} 900.0
# TYPE vllm:request_generation_tokens histogram
vllm:request_generation_tokens_bucket{engine="0",le="1.0",model_name="llama"} 0.0
vllm:request_generation_tokens_bucket{engine="0",le="+Inf",model_name="llama"} 3.0
vllm:request_generation_tokens_count{engine="0",model_name="llama"} 3.0
vllm:request_generation_tokens_sum{engine="0",model_name="llama"} 300.0
# TYPE http_requests_total counter
http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 3.0
"""
"""A part of a page of vLLM."""


@dataclass
class FakeEngine:
    """``serve`` answers every request; ``paths`` remembers what was asked for."""

    serve: Serve
    address: str = ""
    port: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    released: Event = field(default_factory=Event)


def page(text: str = PAGE, *, status: int = 200) -> Serve:
    return lambda request: send_bytes(request, text.encode(), status=status, Content_Type="text/plain; version=0.0.4")


@contextmanager
def engine(serve: Serve, address: str = "127.0.0.1", port: int = 0) -> Iterator[FakeEngine]:
    fake = FakeEngine(serve, address)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.paths.append(self.path)
            fake.headers.append(dict(self.headers.items()))
            try:
                fake.serve(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

    server = ThreadingHTTPServer((address, port), Handler)
    fake.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
