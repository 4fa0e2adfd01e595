from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from koord_kube.client import Client, Cluster
from koord_kube.protocol.resources import (
    API_SERVICES,
    CONFIG_MAPS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from koord_manager.webhooks.table import NAMES
from koord_serving.admission.configuration_reconciler import WebhookConfigurationReconciler
from koord_serving.admission.core.admission import ADMITTED, AdmissionOperation
from koord_serving.admission.core.ca_bundle_targets import (
    CABundleTarget,
    api_service_target,
    config_map_target,
    configuration_target,
)
from koord_serving.admission.core.configurations import (
    MUTATING_NAME,
    VALIDATING_NAME,
    WebhookClientConfig,
    WebhookDefinition,
    configurations,
)
from koord_serving.tls.core.certificates import CA_CERT

from tests.support.kube_api import KubeApi
from tests.support.processes import PATIENCE
from tests.support.serving import issued

OWN = "koordinator-system"
SERVICE = "v1alpha1.metrics.koordinator.sh"
SERVED_BY = {"name": "koordinator-manager", "namespace": OWN}
OURS = NAMES | {"mpod.koordinator.sh"}
GATES = {"WebhookFramework": True, "PodMutatingWebhook": True}


def row(mutating: bool) -> WebhookDefinition:
    return WebhookDefinition(
        name="mpod.koordinator.sh" if mutating else "vpod.koordinator.sh",
        path="/mutate-pod" if mutating else "/validate-pod",
        handler=lambda _admission, _view: ADMITTED,
        gate="PodMutatingWebhook",
        resource="pods",
        operations=(AdmissionOperation.CREATE,),
        mutating=mutating,
        fails=True,
    )


def targets() -> list[CABundleTarget]:
    client_config = WebhookClientConfig(OWN)
    mutating, validating = configurations([row(True), row(False)], GATES, client_config)
    return [
        configuration_target(MUTATING_WEBHOOKS, mutating, OURS),
        configuration_target(VALIDATING_WEBHOOKS, validating, OURS),
        api_service_target(SERVICE, SERVED_BY["name"], SERVED_BY["namespace"]),
        config_map_target("koordinator-manager-ca", OWN, "ca.crt"),
    ]


class Keeping:
    """A keeper, and what it depends on."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.client = Client(Cluster(api.url))
        self.pem = issued()[CA_CERT]
        self.reason = ""
        self.leads = True
        self.warnings: list[str] = []
        self.keeper = self.another()

    def another(self) -> WebhookConfigurationReconciler:
        return WebhookConfigurationReconciler(
            self.client,
            targets(),
            bundle=lambda: self.pem,
            ready=self._ready,
            leads=lambda: self.leads,
            on_warning=self.warnings.append,
        )

    async def once(self, keeper: WebhookConfigurationReconciler | None = None) -> set[float]:
        """Reconcile all targets."""
        found = keeper or self.keeper
        keys = [f"{one.resource.plural}/{one.name}" for one in targets()]
        return {await found.reconcile(key) for key in keys}

    async def _ready(self) -> str:
        return self.reason

    def kept(self, resource: Resource = MUTATING_WEBHOOKS, name: str = MUTATING_NAME) -> Any:
        return self.api.get(resource, name)

    def bundles(self) -> set[bytes]:
        """Authorities that API servers get, wherever they are written."""
        found = [
            one["clientConfig"]["caBundle"]
            for kept in (self.kept(), self.kept(VALIDATING_WEBHOOKS, VALIDATING_NAME))
            for one in kept["webhooks"]
        ]
        found.append(self.kept(API_SERVICES, SERVICE)["spec"]["caBundle"])
        reported = self.api.get(CONFIG_MAPS, "koordinator-manager-ca", OWN)["data"]["ca.crt"]
        return {reported.encode(), *(base64.b64decode(one) for one in found)}


@asynccontextmanager
async def running(keeping: Keeping) -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(keeping.keeper.run())
        yield
        task.cancel()


@pytest.fixture
async def keeping() -> AsyncIterator[Keeping]:
    async with KubeApi() as api:
        spec = {
            "group": "metrics.koordinator.sh",
            "version": "v1alpha1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": SERVED_BY,
        }
        api.put(API_SERVICES, {"metadata": {"name": SERVICE}, "spec": spec})
        made = Keeping(api)
        yield made
        await made.client.close()


async def test_the_bundle_is_written_everywhere_and_then_left_alone(keeping: Keeping) -> None:
    assert await keeping.once() == {60.0}
    assert keeping.bundles() == {keeping.pem}
    writes = keeping.api.count("create"), keeping.api.count("update")
    await keeping.once()
    assert (keeping.api.count("create"), keeping.api.count("update")) == writes
    keeping.pem += issued()[CA_CERT]
    await keeping.once()
    assert keeping.bundles() == {keeping.pem}


async def test_nobody_hears_before_this_replica_answers(keeping: Keeping) -> None:
    keeping.reason = "127.0.0.1:9876: Connection refused"
    assert await keeping.once() == {1.0}
    assert keeping.api.count("create") == keeping.api.count("update") == 0
    keeping.reason = ""
    await keeping.once()
    assert keeping.kept()["webhooks"]


async def test_a_follower_writes_nothing(keeping: Keeping) -> None:
    keeping.leads = False
    await keeping.once()
    assert keeping.api.asked == []


async def test_a_conflict_is_looked_at_again(keeping: Keeping) -> None:
    await keeping.once()
    kept = keeping.kept()
    kept["webhooks"][0]["matchConditions"] = [{"name": "mine", "expression": "true"}]
    del kept["webhooks"][0]["clientConfig"]["caBundle"]
    keeping.api.put(MUTATING_WEBHOOKS, kept)
    fault = keeping.api.fail(status=409, verb="update", times=2)
    await keeping.once()
    assert fault.times == 0
    assert keeping.bundles() == {keeping.pem}
    assert keeping.kept()["webhooks"][0]["matchConditions"]


async def test_one_that_fails_costs_no_other_and_is_made_later(keeping: Keeping) -> None:
    fault = keeping.api.fail(status=403, verb="create", plural="mutatingwebhookconfigurations")
    made = {key.resource for key in keeping.api.objects}
    async with running(keeping):
        while {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS} - made:
            await asyncio.sleep(0.01)
            made = {key.resource for key in keeping.api.objects}
    assert fault.times == 0
    assert f"{MUTATING_WEBHOOKS.plural}/{MUTATING_NAME}" in keeping.warnings[0]


async def test_what_is_deleted_meanwhile_is_not_made_again_until_leaders_change(
    keeping: Keeping,
) -> None:
    """Whoever uninstalls would be left with webhooks that nobody answers."""
    await keeping.once()
    keeping.api.delete(MUTATING_WEBHOOKS, MUTATING_NAME)
    for _ in range(2):
        await keeping.once()
        with pytest.raises(KeyError):
            keeping.kept()
    keeping.leads = False
    await keeping.once()
    keeping.leads = True
    await keeping.once()
    assert keeping.kept()["webhooks"]


async def test_a_leader_that_was_away_for_a_moment_makes_it_again_too(keeping: Keeping) -> None:
    """Nothing was reconciled while it did not lead."""
    await keeping.once()
    keeping.api.delete(MUTATING_WEBHOOKS, MUTATING_NAME)
    keeping.keeper.lead()
    await keeping.once()
    assert keeping.kept()["webhooks"]


async def test_what_was_there_at_the_start_is_not_made_again_either(keeping: Keeping) -> None:
    await keeping.once()
    another = keeping.another()
    await keeping.once(another)
    keeping.api.delete(MUTATING_WEBHOOKS, MUTATING_NAME)
    await keeping.once(another)
    with pytest.raises(KeyError):
        keeping.kept()


async def test_what_somebody_breaks_is_put_right_at_once(keeping: Keeping) -> None:
    async with running(keeping):
        await keeping.api.wait_for("watch", 4)
        while MUTATING_WEBHOOKS not in {key.resource for key in keeping.api.objects}:
            await asyncio.sleep(0.01)
        kept = keeping.kept()
        kept["webhooks"][0]["clientConfig"]["caBundle"] = ""
        keeping.api.put(MUTATING_WEBHOOKS, kept)
        while not keeping.kept()["webhooks"][0]["clientConfig"].get("caBundle"):
            await asyncio.sleep(0.01)


async def test_webhooks_of_others_stay_and_are_named_once(
    keeping: Keeping, caplog: pytest.LogCaptureFixture
) -> None:
    await keeping.once()
    kept = keeping.kept(VALIDATING_WEBHOOKS, VALIDATING_NAME)
    kept["webhooks"].append({**kept["webhooks"][0], "name": "vpodgroup.example.com"})
    keeping.api.put(VALIDATING_WEBHOOKS, kept)
    for _ in range(2):
        await keeping.once()
    assert len(keeping.kept(VALIDATING_WEBHOOKS, VALIDATING_NAME)["webhooks"]) == 2
    named = [getattr(one, "fields", {}).get("names") for one in caplog.records]
    assert [one for one in named if one] == ["vpodgroup.example.com"]
