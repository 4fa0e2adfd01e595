"""Who may ask webhooks: over TLS with real certificates, and by the double's word on tokens."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from koord_kube.client import Client, Cluster
from koord_serving.admission.callers import WebhookCallers
from koord_serving.admission.core.caller_rules import CallerRules
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.certificates import Certificates, make_certificates
from tests.support.kube_api import KubeApi
from tests.support.kube_api.access import Identity
from tests.support.serving import Serving, review, serving, trusting

AUDIENCE, USER = "webhooks.example.com", "system:serviceaccount:kube-system:api-servers"


async def answer(
    running: Serving, shown: Certificates | None = None, token: str = ""
) -> int | None:
    """The status that a client gets; ``None``: no connection."""
    context = trusting(running.data[CA_CERT])
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.post(running.url("/admit"), json=review(), headers=headers) as got:
                return got.status
        except (aiohttp.ClientError, ssl.SSLError, ConnectionError):
            return None


@pytest.fixture
def ours(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "ours")


@pytest.fixture
def theirs(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "theirs")


def callers(rules: CallerRules, api: Client | None = None) -> WebhookCallers:
    return WebhookCallers(rules, api)


async def test_by_default_everybody_is_answered(theirs: Certificates) -> None:
    async with serving() as running:
        assert await answer(running) == 200
        assert await answer(running, theirs) == 200


@pytest.mark.parametrize(("name", "status"), [("", 200), ("server", 200), ("other", 403)])
async def test_with_an_authority_its_certificates_are_asked_for(
    ours: Certificates, theirs: Certificates, name: str, status: int
) -> None:
    rules = CallerRules(str(ours.authority), names=frozenset({name} - {""}))
    async with serving(callers=callers(rules)) as running:
        assert await answer(running) == 401
        assert await answer(running, theirs) is None
        assert await answer(running, ours) == status
        assert running.count("/admit", "", "unknown_caller") == 1 + (status == 403)
        async with running.session.get(running.url("/healthz")) as health:
            assert health.status == 200, "for everybody"


async def test_an_authority_that_cannot_be_read_lets_nobody_in_until_it_can(
    ours: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "clients.crt"
    checking = callers(CallerRules(str(file)))
    async with serving(callers=checking) as running:
        assert "No such file" in running.server.problem()
        assert await answer(running) == 401
        assert await answer(running, ours) is None
        file.write_bytes(ours.authority.read_bytes())
        assert await checking._reconcile("") > 0
        assert await answer(running, ours) == 200
        file.write_text("nonsense")
        with pytest.raises(OSError, match="authority cannot be used"):
            await checking._reconcile("")
        assert await answer(running, ours) == 200, "the last one stays"


@pytest.fixture
async def api() -> AsyncIterator[KubeApi]:
    async with KubeApi() as made:
        yield made


async def test_tokens_for_the_audience_are_reviewed(api: KubeApi) -> None:
    for_us = frozenset({AUDIENCE})
    api.access.identities |= {
        "good": Identity(USER, audiences=for_us),
        "other-user": Identity("system:serviceaccount:shop:web", audiences=for_us),
        "other-audience": Identity(USER),
    }
    rules = CallerRules(audience=AUDIENCE, names=frozenset({USER}))
    async with (
        Client(Cluster(api.url)) as client,
        serving(callers=callers(rules, client)) as running,
    ):
        tokens = ("good", "other-user", "other-audience", "unknown", "")
        assert [await answer(running, token=one) for one in tokens] == [200, 403, 401, 401, 401]
        api.fail(verb="create", plural="tokenreviews", status=500, times=9)
        assert await answer(running, token="another") == 503


@pytest.mark.parametrize("rules", [{"names": frozenset("a")}, {"audience": "a"}])
def test_rules_that_protect_nothing_are_refused(rules: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="--webhook-client-names"):
        CallerRules(**rules)
