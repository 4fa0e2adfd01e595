from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import SECRETS
from koord_serving.tls.certificate_secret import SECRET_NAME, CertificateSecret
from koord_serving.tls.core import certificates
from koord_serving.tls.core.certificates import CA_CERT, CERT, KEY, LIFE, OVERLAP
from koord_serving.tls.server_tls import ServerTls

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.serving import NAMES

NAMESPACE = "koordinator-system"
START = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Replicas:
    """Managers of one cluster that follow one Secret; the first leads."""

    def __init__(self, api: KubeApi, count: int) -> None:
        self.api = api
        self.now = START
        self.leader = 0
        self.reported = 0
        self.clients = [Client(Cluster(api.url)) for _ in range(count)]
        self.tls = [ServerTls() for _ in range(count)]
        self.rotations = [self._rotation(number) for number in range(count)]

    def _rotation(self, number: int) -> CertificateSecret:
        return CertificateSecret(
            self.clients[number],
            self.tls[number],
            NAMES,
            namespace=NAMESPACE,
            leads=lambda: number == self.leader,
            changed=self._changed,
            now=lambda: self.now,
        )

    def _changed(self) -> None:
        self.reported += 1

    async def once(self) -> list[float]:
        """A round of all at the same time."""
        return list(await asyncio.gather(*(one.once() for one in self.rotations)))

    def secret(self) -> dict[str, bytes]:
        data = self.api.get(SECRETS, SECRET_NAME, NAMESPACE)["data"]
        return {name: base64.b64decode(text) for name, text in data.items()}

    def put(self, data: dict[str, bytes]) -> None:
        encoded = {name: base64.b64encode(one).decode() for name, one in data.items()}
        given = {"metadata": {"name": SECRET_NAME}, "type": "Opaque", "data": encoded}
        self.api.put(SECRETS, given, NAMESPACE)


@pytest.fixture
async def replicas() -> AsyncIterator[Replicas]:
    async with KubeApi() as api:
        made = Replicas(api, 3)
        yield made
        for client in made.clients:
            await client.close()


async def test_a_secret_that_is_deleted_is_followed_by_another_authority(
    replicas: Replicas,
) -> None:
    await replicas.once()
    first, found = replicas.secret(), []
    for _ in range(2):
        replicas.api.delete(SECRETS, SECRET_NAME, NAMESPACE)
        await replicas.once()
        found.append(replicas.secret())
    again, then = found
    assert again == then, "what was announced stays announced"
    pair = (CA_CERT, CERT, KEY)
    assert [again[one] for one in pair] == [first[one] for one in pair], "clients still trust it"
    assert {one.bundle.count(b"BEGIN") for one in replicas.rotations} == {2}
    replicas.now += OVERLAP + 2 * certificates.SKEW
    await replicas.once()
    assert replicas.secret()[CA_CERT] == again[certificates.NEXT_CERT]


async def test_replicas_that_start_at_once_agree_on_one_secret(replicas: Replicas) -> None:
    replicas.leader = -1  # the first does not wait for a leader
    assert await replicas.once() == [60.0] * 3
    data = replicas.secret()
    assert {one.bundle for one in replicas.rotations} == {data[CA_CERT]}
    for tls in replicas.tls:
        assert tls.problem(START) == ""
        assert not tls.use(data[CERT], data[KEY], START), "it shows the one of the Secret"
    assert replicas.api.count("create", "secrets") == 3, "all were there at the same time"
    assert replicas.reported == 3
    await replicas.once()
    assert replicas.reported == 3
    assert replicas.api.count("update", "secrets") == 0


async def test_the_leader_renews_and_all_follow(replicas: Replicas) -> None:
    await replicas.once()
    before = replicas.secret()
    replicas.now += LIFE * 0.8
    await replicas.rotations[1].once()
    assert replicas.secret() == before, "it does not lead"
    await replicas.rotations[0].once()
    renewed = replicas.secret()
    assert renewed[CERT] != before[CERT]
    await replicas.rotations[2].once()
    for number in (0, 2):
        assert not replicas.tls[number].use(renewed[CERT], renewed[KEY], replicas.now)


async def test_an_empty_secret_that_was_installed_is_filled_by_the_leader(
    replicas: Replicas,
) -> None:
    replicas.api.put(SECRETS, {"metadata": {"name": SECRET_NAME, "labels": {"a": "b"}}}, NAMESPACE)
    assert await replicas.rotations[1].once() == 1.0, "it looks again soon"
    assert replicas.tls[1].problem(START) != ""
    await replicas.rotations[0].once()
    assert await replicas.rotations[1].once() == 60.0
    kept = replicas.api.get(SECRETS, SECRET_NAME, NAMESPACE)
    assert kept["metadata"]["labels"] == {"a": "b"}


async def test_nonsense_in_the_secret_costs_no_certificate_in_use(replicas: Replicas) -> None:
    await replicas.once()
    good = replicas.secret()
    replicas.leader = -1
    kept = replicas.api.get(SECRETS, SECRET_NAME, NAMESPACE)
    kept["data"].update({CERT: "%%%", CA_CERT: base64.b64encode(b"nonsense").decode()})
    replicas.api.put(SECRETS, kept, NAMESPACE)
    assert await replicas.once() == [1.0] * 3
    assert not replicas.tls[0].use(good[CERT], good[KEY], START)
    assert replicas.rotations[0].bundle == good[CA_CERT]


async def test_a_write_in_between_is_read_and_not_overwritten(replicas: Replicas) -> None:
    """Another leader, whose clock says the same, is faster."""
    await replicas.once()
    replicas.now += LIFE * 0.8
    theirs = certificates.plan(replicas.secret(), replicas.now, NAMES).data
    assert theirs is not None
    fault = replicas.api.fail(status=409, verb="update", plural="secrets")
    client = replicas.clients[0]
    original = client.get
    reads = 0

    async def read(*about: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 2:
            replicas.put(dict(theirs))
        return await original(*about)

    client.get = read  # type: ignore[method-assign]
    await replicas.rotations[0].once()
    assert fault.times == 0
    assert replicas.secret() == theirs
    assert not replicas.tls[0].use(theirs[CERT], theirs[KEY], replicas.now)


async def test_nothing_of_the_secret_is_logged(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await replicas.once()
    replicas.put({**replicas.secret(), KEY: b"-----my-key-----"})
    replicas.leader = -1
    await replicas.once()
    said = "".join(str(one.__dict__) for one in caplog.records)
    assert "certificates renewed" in said
    assert "certificate Secret is not usable" in said
    assert "-----" not in said
    assert "my-key" not in said
    assert base64.b64encode(replicas.secret()[certificates.CA_KEY])[:40].decode() not in said


async def test_a_follower_sees_a_change_at_once() -> None:
    async with KubeApi() as api:
        replicas = Replicas(api, 2)
        await replicas.once()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(replicas.rotations[1].run())
            await api.wait_for("watch", 1, "secrets")
            replicas.now += LIFE * 0.8
            reported = replicas.tls[1].expiry()
            await replicas.rotations[0].once()
            async with asyncio.timeout(PATIENCE):
                while replicas.tls[1].expiry() == reported:
                    await asyncio.sleep(0.01)
            following.cancel()
        for client in replicas.clients:
            await client.close()
    assert replicas.tls[1].expiry() == replicas.tls[0].expiry()
