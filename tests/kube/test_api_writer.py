"""Writes to an API server through TLS that offers HTTP/2, or does not."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from koord_kube.api_writer import ApiWriter
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import server_context
from koord_kube.protocol.api import NotLeadingError
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import PODS

from tests.support.certificates import make_certificates


@pytest.mark.parametrize("alpn", [[], ["http/1.1"]], ids=["no ALPN", "http/1.1"])
async def test_a_server_without_http2_is_written_to_by_http1(
    tmp_path: Path, alpn: list[str]
) -> None:
    arrived: list[str] = []
    warnings: list[str] = []
    leads = True

    async def answer(request: web.Request) -> web.Response:
        arrived.append(request.path)
        return web.json_response({"kind": "Status"}, status=201)

    certificates = make_certificates(tmp_path)
    context = certificates.server_context()
    if alpn:
        context.set_alpn_protocols(alpn)
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    ours = partial(server_context, certificates.authority)
    port = runner.addresses[0][1]
    cluster = Cluster(f"https://127.0.0.1:{port}", context=ours(), new_context=ours)
    async with Client(cluster, Limits(qps=0)) as client:
        fenced = client.fenced(lambda: leads)
        writer = ApiWriter(fenced, lambda: leads, on_warning=warnings.append)
        names = [f"p{number}" for number in range(20)]
        await asyncio.gather(*(writer.write(_binding(name)) for name in names))
        await writer.write(_binding("late"))
        leads = False
        with pytest.raises(NotLeadingError):
            await writer.write(_binding("never"))
        await writer.close()
    await runner.cleanup()
    assert {path.split("/")[6] for path in arrived} == {*names, "late"}
    assert len(arrived) == 21
    [warning] = warnings
    assert "HTTP/1.1" in warning


def _binding(name: str) -> Request:
    return Request("POST", PODS, name, "team", "binding", {"kind": "Binding"})
