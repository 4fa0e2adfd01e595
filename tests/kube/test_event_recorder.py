"""Events as they are written."""

from __future__ import annotations

from koord_kube.client import Client
from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import CONFIG_MAPS, EVENTS, NODES

from tests.support.kube_api import KubeApi

CONFIG = reference(CONFIG_MAPS, "slo-controller-config", "koordinator-system", "u-1")
NODE = reference(NODES, "n1", uid="u-2")


def written(api: KubeApi) -> list[Object]:
    return [one for key, one in api.objects.items() if key.resource == EVENTS]


async def test_the_api_takes_them(api: KubeApi, client: Client) -> None:
    recorder = EventRecorder(client, "koord-manager", "manager-1")
    await recorder.record(CONFIG, "BadKey", "it is bad", warning=True)
    await recorder.record(NODE, "Degraded", "no metrics")
    found = [(one["metadata"]["namespace"], one["type"], one["count"]) for one in written(api)]
    assert found == [("koordinator-system", "Warning", 1), ("default", "Normal", 1)]


async def test_an_event_is_repeated_after_five_minutes(api: KubeApi, client: Client) -> None:
    now = 0.0
    recorder = EventRecorder(client, "koord-manager", clock=lambda: now)
    for reason, message in [("R", "m")] * 3 + [("R", "other"), ("Q", "m")]:
        await recorder.record(NODE, reason, message)
    assert len(written(api)) == 3
    now = 300.0
    await recorder.record(NODE, "R", "m")
    assert [one["count"] for one in written(api)] == [1, 1, 1, 3]


async def test_a_failure_is_logged_once_and_never_raised(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    recorder = EventRecorder(client, "koord-manager", on_warning=warnings.append)
    api.fail(status=403, times=2)
    for number in range(4):
        await recorder.record(NODE, "R", f"m {number}")
    assert warnings == ["events default: 403 this is a test (Events are not written)"]
    assert len(written(api)) == 2


async def test_who_does_not_lead_logs_nothing(api: KubeApi, client: Client) -> None:
    warnings: list[str] = []
    fenced = client.fenced(lambda: False)
    recorder = EventRecorder(fenced, "koord-manager", on_warning=warnings.append)
    await recorder.record(NODE, "R", "m")
    assert (warnings, written(api)) == ([], [])
