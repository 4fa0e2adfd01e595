"""Client's cost of a write to an API server: HTTP/1.1 by aiohttp, and HTTP/2 by ``wire/``.

The server is nginx, which answers each request at once with what a Binding is answered: so the
client's CPU is what is compared. Both writers take turns, TLS and a token of usual length.

``python -m bench.kube_writes`` measures and writes bench/results/kube_writes.*.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import uvloop
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import server_context
from koord_kube.http2_writer import Http2Writer
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS

from bench import report
from bench.report import Measure
from tests.support.certificates import make_certificates
from tests.support.ports import free_port
from tests.support.processes import PATIENCE

WRITES, AT_A_TIME = 5_000, 100
TARGET = 0.1
"""Target as a part of the cost by HTTP/1.1."""

_NGINX = """\
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000; http2_max_concurrent_streams 250;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    location / {{ default_type application/json; return 201 '{answer}'; }}
  }}
}}
"""
_ANSWER = '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class _Token:
    async def header(self, *, anew: bool = False) -> str:
        return "Bearer " + "x" * 900


def binding(number: int) -> Request:
    name = f"web-1-5d8f7c9b6-{number:06x}"
    target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % 5000}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    return Request("POST", PODS, name, "team-1", "binding", body)


@contextmanager
def server() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as directory:
        folder, port = Path(directory), free_port()
        made = make_certificates(folder)
        text = _NGINX.format(
            folder=folder, port=port, certificate=made.certificate, key=made.key, answer=_ANSWER
        )
        (folder / "nginx.conf").write_text(text)
        nginx = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)])
        ours = partial(server_context, made.authority)
        try:
            yield Cluster(f"https://127.0.0.1:{port}", _Token(), ours(), new_context=ours)
        finally:
            nginx.terminate()
            nginx.wait()


async def _microseconds(write: Callable[[Request], Awaitable[object]]) -> float:
    """Of CPU a write, without the first, which connect."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            await write(binding(0))
            break
        except Exception:  # nginx is not listening yet
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)
    numbers = iter(range(WRITES))

    async def work() -> None:
        for number in numbers:
            await write(binding(number))

    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_A_TIME):
            group.create_task(work())
    return (time.process_time() - began) / WRITES * 1e6


async def _by_http1(cluster: Cluster) -> float:
    async with Client(cluster, Limits(qps=0)) as client:

        async def write(request: Request) -> object:
            assert request.body is not None
            return await client.create(PODS, dict(request.body), "team-1", request.name, "binding")

        return await _microseconds(write)


async def _by_http2(cluster: Cluster) -> float:
    writer = Http2Writer(cluster)
    try:
        return await _microseconds(writer.write)
    finally:
        await writer.close()


def measure(rounds: int) -> list[Measure]:
    taken: dict[str, list[float]] = {"http2": [], "http1": []}
    with server() as cluster:
        for _ in range(rounds):
            taken["http1"].append(uvloop.run(_by_http1(cluster)))
            taken["http2"].append(uvloop.run(_by_http2(cluster)))
    ours, peer = (statistics.median(taken[one]) for one in ("http2", "http1"))
    pairs = zip(taken["http2"], taken["http1"], strict=True)
    interval = report.median_interval([one / other for one, other in pairs])
    name = f"CPU of a write, {AT_A_TIME} at a time"
    return [Measure(name, "µs", ours, "HTTP/1.1", peer, TARGET, interval=interval)]


def main(rounds: int = 9) -> None:
    measures = measure(rounds)
    print(report.table(measures))
    report.write(measures, "kube_writes", {"writes": WRITES, "server": "nginx, TLS"})


if __name__ == "__main__":
    main()
