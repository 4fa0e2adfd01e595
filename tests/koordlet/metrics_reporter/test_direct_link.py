"""The direct link against real receivers on loopback: 127.0.0.1, .2 and .3 at one port, as the
managers behind a headless Service are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest
from koord_kube.credentials import TokenFile
from koord_manager.node_metric.receiver import SERVER_OPTIONS, SERVICE, NodeMetricReceiver
from koord_manager.node_metric.report_authorizer import ReportClaim
from koord_model.service_account_token import MANAGER_AUDIENCE
from koordlet.metrics_reporter.direct_link import DirectLink, LinkError, parse_address

from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.ports import free_port
from tests.support.processes import PATIENCE
from tests.support.relay import relaying
from tests.support.service_account_tokens import unsigned_token

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


class Manager:
    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self.leads = False
        self.awake = asyncio.Event()
        self.awake.set()
        self.tokens: list[str] = []
        self.heard: list[bytes] = []
        self.receiver = NodeMetricReceiver(
            lambda: self.leads,
            self._admit,
            received=lambda _node, status, _at: self.heard.append(status),
        )
        self.server: grpc.aio.Server | None = None

    async def _admit(self, token: str, _: str) -> ReportClaim:
        self.tokens.append(token)
        await self.awake.wait()
        return ReportClaim("n1")

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.server = grpc.aio.server(options=(*SERVER_OPTIONS, ("grpc.so_reuseport", 0)))
        self.receiver.add_to(self.server)
        if credentials:
            self.server.add_secure_port(self.address, credentials)
        else:
            self.server.add_insecure_port(self.address)
        await self.server.start()

    async def stop(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            await server.stop(None)

    def sequence(self) -> int:
        """Of the last report that was taken; 0 without one."""
        taken = self.receiver._newest.get("n1")
        return taken.sequence if taken else 0


class Service:
    """The managers, and the name that stands for those of them that are listed."""

    def __init__(self, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.port = port
        self.managers = [Manager(host, port) for host in HOSTS]
        self.listed = list(HOSTS)
        self.resolved = 0
        loop = asyncio.get_running_loop()
        real = loop.getaddrinfo

        async def resolve(host: str, port: int, **more: Any) -> Any:
            if host != "managers.svc":
                return await real(host, port, **more)
            self.resolved += 1
            if not self.listed:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in self.listed]

        monkeypatch.setattr(loop, "getaddrinfo", resolve)

    def lead(self, leader: int | None) -> None:
        for number, manager in enumerate(self.managers):
            manager.leads = number == leader


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    made = Service(free_port(), monkeypatch)
    for manager in made.managers:
        await manager.start()
    yield made
    for manager in made.managers:
        manager.awake.set()
        await manager.stop()


Make = Callable[..., DirectLink]

_USAGE = {"resources": {"cpu": "1", "memory": "1Gi"}}
STATUS = msgspec.json.encode(
    {"podsMetric": [{"name": f"p{n}", "namespace": "d", "podUsage": _USAGE} for n in range(600)]}
)
"""Of a full node: some tens of KiB."""


@pytest.fixture
async def make(service: Service) -> AsyncIterator[Make]:
    made = []

    def link(**more: Any) -> DirectLink:
        more.setdefault("attempt_seconds", PATIENCE)
        made.append(DirectLink(f"managers.svc:{service.port}", "n1", **more))
        return made[-1]

    yield link
    for one in made:
        await one.close()


def send(link: DirectLink, within: float = PATIENCE) -> Awaitable[None]:
    return link.send(STATUS, 1.5, within)


async def test_the_leader_is_found_and_followed(service: Service, make: Make) -> None:
    link = make()
    resolved = []
    for report, leader in enumerate((0, 0, 2, 1, 1, 0), start=1):
        service.lead(leader)
        await send(link)
        assert service.managers[leader].sequence() == report
        assert link.leader == service.managers[leader].address
        resolved.append(service.resolved)
    assert resolved[:2] == [1, 1], "while one leads, the name is not asked for again"
    assert [len(manager.heard) for manager in service.managers] == [3, 2, 1]
    heard = msgspec.json.decode(service.managers[0].heard[-1])
    assert heard == msgspec.json.decode(STATUS)


async def test_a_leader_that_is_killed_is_followed_by_the_next(
    service: Service, make: Make
) -> None:
    service.lead(0)
    link = make()
    await send(link)
    await service.managers[0].stop()
    with pytest.raises(LinkError, match="UNAVAILABLE"):
        await send(link)
    assert link.leader == ""
    service.lead(1)
    await send(link)
    assert service.managers[1].sequence() == 3
    # The killed one is back: nothing of its failure is held against it.
    service.lead(0)
    await service.managers[0].start()
    await send(link)
    assert service.managers[0].sequence() == 4


async def test_a_leader_that_hangs_costs_its_attempts_and_no_more(
    service: Service, make: Make
) -> None:
    service.lead(0)
    link = make()
    await send(link)
    service.managers[0].awake.clear()
    link._attempt_seconds = 0.5
    with pytest.raises(LinkError, match="DEADLINE_EXCEEDED"):
        await send(link)
    link._attempt_seconds = PATIENCE
    # It still believes that it leads, beside the one that does.
    service.managers[2].leads = True
    await send(link)
    assert service.managers[2].sequence() == 3


async def test_a_host_that_does_not_answer_at_all_does_not_stop_the_search(
    service: Service, make: Make
) -> None:
    await service.managers[0].stop()
    service.lead(2)
    service.listed = ["127.0.0.1", "127.0.0.3"]
    with socket.create_server(("127.0.0.1", service.port)):
        link = make(attempt_seconds=3.0)
        for _ in range(3):
            await send(link)
            await link.close()
    assert service.managers[2].sequence() == 3


async def test_the_search_ends_in_time(service: Service, make: Make) -> None:
    service.lead(0)
    service.managers[0].awake.clear()
    link = make()
    with pytest.raises(LinkError, match=r"not done within 0\.3 s"):
        await send(link, within=0.3)
    assert link.leader == ""
    service.managers[0].awake.set()
    await send(link)


@pytest.mark.parametrize(
    ("listed", "leader", "said"),
    [
        (HOSTS, None, r"127\.0\.0\.1:\d+: FAILED_PRECONDITION"),
        ((), 0, r"managers\.svc: .*not known"),
        (("192.0.2.1",), 0, "without TLS only loopback is spoken to; name a CA file"),
    ],
    ids=["nobody leads", "the name is not known", "an address that is not loopback"],
)
async def test_why_a_report_is_not_sent_and_that_the_next_one_may_be(
    service: Service, make: Make, listed: tuple[str, ...], leader: int | None, said: str
) -> None:
    service.listed = list(listed)
    service.lead(leader)
    link = make()
    with pytest.raises(LinkError, match=said):
        await send(link)
    service.listed = list(HOSTS)
    service.lead(0)
    await send(link)


async def test_behind_one_address_the_leader_is_found_by_a_new_connection(
    service: Service, make: Make
) -> None:
    """As a Service's: what is open stays with whoever led, what is new comes to who does."""
    ports = [free_port(), free_port()]
    for manager, port in zip(service.managers, ports, strict=False):
        await manager.stop()
        manager.address = f"127.0.0.2:{port}"
        await manager.start()
    await service.managers[2].stop()
    leader = 0

    service.listed = ["127.0.0.1"]
    async with relaying(lambda: ("127.0.0.2", ports[leader]), service.port):
        link = make()
        for leader in (0, 1, 0):
            service.lead(leader)
            await send(link)
        assert [len(manager.heard) for manager in service.managers] == [2, 1, 0]
        await link.close()


async def test_only_who_the_name_stands_for_is_asked(service: Service, make: Make) -> None:
    """Another address that a server names gets neither report nor token."""
    elsewhere, knocked = free_port(), asyncio.Event()

    async def refuse(_request: bytes, context: Any) -> bytes:
        where = (("koord-leader", f"127.0.0.4:{elsewhere}"),)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "does not lead", where)
        return b""

    await service.managers[0].stop()
    redirecting = grpc.aio.server(options=SERVER_OPTIONS)
    method = grpc.unary_unary_rpc_method_handler(refuse)
    redirecting.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Report": method}),)
    )
    redirecting.add_insecure_port(service.managers[0].address)
    await redirecting.start()
    service.listed = [HOSTS[0]]
    try:
        async with await asyncio.start_server(lambda *_: knocked.set(), "127.0.0.4", elsewhere):
            with pytest.raises(LinkError, match="FAILED_PRECONDITION"):
                await send(make())
        assert not knocked.is_set()
    finally:
        await redirecting.stop(None)


async def test_a_report_of_a_session_that_another_followed_is_not_delivered(
    service: Service, make: Make
) -> None:
    service.lead(0)
    older, newer = make(), make()
    await send(older)
    await send(newer)
    with pytest.raises(LinkError, match=r"ABORTED: .*another session has followed"):
        await send(older)


async def test_without_tls_no_token_is_sent(service: Service, make: Make, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(unsigned_token("secret"))
    service.lead(0)
    await send(make(credentials=TokenFile(tmp_path / "token")))
    assert service.managers[0].tokens == [""]


@pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")
async def test_tls_verifies_the_server_and_brings_the_token(
    service: Service, make: Make, tmp_path: Path
) -> None:
    good = make_certificates(tmp_path / "good", "DNS:managers.svc")
    stray = make_certificates(tmp_path / "stray", "DNS:managers.svc")
    other = make_certificates(tmp_path / "other", "DNS:elsewhere.svc")
    pairs = {"good": good, "stray": stray, "other": other}

    def credentials(name: str) -> grpc.ServerCredentials:
        one = pairs[name]
        pair = (one.key.read_bytes(), one.certificate.read_bytes())
        return grpc.ssl_server_credentials((pair,))

    for manager, name in zip(service.managers, ("good", "stray", "other"), strict=True):
        await manager.stop()
        await manager.start(credentials(name))
    token = tmp_path / "token"
    token.write_text(unsigned_token("secret"))
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(good.authority.read_bytes() + other.authority.read_bytes())
    link = make(ca_file=str(bundle), credentials=TokenFile(token))
    service.lead(0)
    await send(link)
    assert service.managers[0].tokens == [unsigned_token("secret")]
    # Neither of an unknown CA nor of another name.
    for wrong in (1, 2):
        service.lead(wrong)
        with pytest.raises(LinkError, match="UNAVAILABLE"):
            await send(link)
        assert service.managers[wrong].tokens == []
    token.unlink()
    with pytest.raises(LinkError, match="token: No such file"):
        await send(link)
    service.lead(0)
    token.write_text(unsigned_token("rotated"))
    await send(link)
    tokens = [unsigned_token("secret"), unsigned_token("rotated")]
    assert service.managers[0].tokens == tokens


@pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")
@pytest.mark.parametrize(
    "audience", ["https://kubernetes.default.svc", [MANAGER_AUDIENCE, "x"], [], None]
)
async def test_a_token_that_others_take_is_not_sent(
    service: Service, make: Make, tmp_path: Path, audience: Any
) -> None:
    made = make_certificates(tmp_path / "c", "DNS:managers.svc")
    pair = (made.key.read_bytes(), made.certificate.read_bytes())
    service.listed = [HOSTS[0]]
    await service.managers[0].stop()
    await service.managers[0].start(grpc.ssl_server_credentials((pair,)))
    service.lead(0)
    token = tmp_path / "token"
    token.write_text(unsigned_token(audience=audience))
    link = make(ca_file=str(made.authority), credentials=TokenFile(token))
    with pytest.raises(LinkError, match="it is not sent"):
        await send(link)
    assert (service.resolved, service.managers[0].tokens) == (0, [])


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("manager.koordinator-system:9317", ("manager.koordinator-system", 9317)),
        ("[::1]:80", ("::1", 80)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
    ],
)
def test_addresses(address: str, place: tuple[str, int]) -> None:
    assert parse_address(address) == place


@pytest.mark.parametrize("address", ["", "host", "host:0", "host:65536", "::1:80", "http://h:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        DirectLink(address, "n1")
