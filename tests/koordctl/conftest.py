import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from koord_service.status import StatusPage, StatusServer, json_page
from koordctl.main import main
from koordlet.http_api.routes import pages

from tests.support.kube_api import KubeApi
from tests.support.observed import busy_node

HEALTH: dict[str, Any] = {
    "version": "0.1.0",
    "status": "degraded",
    "backend": "ok",
    "database": "ok",
    "reconciled": True,
    "connections": 3,
    "pods": 2,
    "containers": 3,
    "unmanaged": 1,
    "hook_servers": [
        {
            "name": "koordlet",
            "stages": ["PreCreateContainer", "PreRunPodSandbox"],
            "policy": "Ignore",
            "breaker": "open",
        }
    ],
}
MISSED = {
    "stage": "PreCreateContainer",
    "server": "koordlet",
    "reason": "no answer within 2 s",
    "at": 1_700_000_000.5,
}


def container(name: str, *missed: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"c-{name}", "name": name, "managed": not missed, "missed": list(missed)}


PODS: list[dict[str, Any]] = [
    {**container("shop/web"), "containers": [container("app")]},
    {
        **container("batch/job-1"),
        "containers": [container("main", MISSED), container("sidecar")],
    },
]

Serve = Callable[..., StatusServer]

Run = Callable[..., str]
"""``koordctl`` with arguments, in this process: what it prints."""

Failing = Callable[..., tuple[object, str]]
"""The same where it fails: exit code, and its one line."""

Ctl = Callable[..., Awaitable[tuple[object, str, str]]]
"""``koordctl`` with arguments: exit code, what it says, and what it complains of."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> str:
        main(list(argv))
        return capsys.readouterr().out

    return call


@pytest.fixture
def failing(capsys: pytest.CaptureFixture[str]) -> Failing:
    def call(*argv: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as end:
            main(list(argv))
        captured = capsys.readouterr()
        assert captured.out == ""
        [line] = captured.err.splitlines()
        assert line.startswith("koordctl: ")
        return end.value.code, line

    return call


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as serving:
        yield serving


@pytest.fixture
def kubeconfig(api: KubeApi, tmp_path: Path) -> Path:
    """Of the double's cluster."""
    path = tmp_path / "kubeconfig"
    written = {
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **written}))
    return path


@pytest.fixture
def ctl(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Ctl:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    async def run(*arguments: str) -> tuple[object, str, str]:
        code: object = 0
        try:
            await asyncio.to_thread(main, list(arguments))
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A real status server with the given pages; started, stopped at the end."""
    servers: list[StatusServer] = []

    def start(address: str = "127.0.0.1:0", **pages: StatusPage) -> StatusServer:
        by_path = {f"/{name}": lambda _, page=page: page for name, page in pages.items()}
        server = StatusServer(address, by_path)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(params=["tcp", "unix"])
def proxy(request: pytest.FixtureRequest, serve: Serve, tmp_path: Path) -> str:
    """The address of one that answers as the proxy does."""
    address = "127.0.0.1:0" if request.param == "tcp" else f"unix://{tmp_path}/s"
    return serve(address, healthz=json_page(HEALTH), pods=json_page(PODS)).address


@pytest.fixture
def koordlet(tmp_path: Path) -> Iterator[str]:
    """The address of one that observes a busy node."""
    server = StatusServer(f"unix://{tmp_path}/status.sock", pages(busy_node(1200).observed()))
    server.start()
    yield server.address
    server.stop()


@pytest.fixture
def health() -> bytes:
    return json.dumps(HEALTH).encode()


@pytest.fixture
def pods() -> bytes:
    return json.dumps(PODS).encode()
