"""What interception does for CRI only; the rest is the contract in ``test_interceptor.py``."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from koord_model.patch import Patch
from koord_model.resources import LinuxResources
from koord_proto import cri_pb2 as cri
from koord_proxy.rules.records import RuntimeRecord

from tests.support import cri_requests as requests
from tests.support.docker_bodies import PARENT_PATH
from tests.support.interception import Hooks, intercepting

SHARES = Patch(resources=LinuxResources(cpu_shares=7))


async def test_a_create_says_itself_what_is_needed_of_an_unknown_pod(tmp_path):
    async with intercepting(requests, tmp_path, Hooks(wants=SHARES)) as client:
        sent = await client.create()
        _, asked = client.hooks.asked[-1]
    assert sent.cpu_shares == 7
    assert (asked.pod_meta.name, asked.pod_cgroup_parent) == ("life", PARENT_PATH)


OLD, NEW = 1 << 30, 4 << 30


def resizing(limits: dict[str, int], *, answers: bool = True) -> Any:
    """Looks a container up that has these limits by now."""

    async def refresh(record: RuntimeRecord) -> bool:
        hook_request = deepcopy(record.hook_request)
        for name, value in limits.items():
            setattr(hook_request.container_resources, name, value)
        record.hook_request = hook_request if answers else record.hook_request
        return answers

    return refresh


@pytest.mark.parametrize("answers", [True, False])
async def test_no_update_is_completed_with_what_is_not_in_force_any_more(tmp_path, answers):
    refresh = resizing({"memory_limit_in_bytes": NEW}, answers=answers)
    async with intercepting(requests, tmp_path, refresh=refresh) as client:
        await client.run_pod()
        await client.create()
        record = client.record()
        record.hook_request.container_resources.memory_limit_in_bytes = OLD
        client.hooks.wants = SHARES
        sent = await client.do(requests.update(cpuset_cpus="1"))
        _, asked = client.hooks.asked[-1]
    linux = sent.whole.linux
    assert (linux.cpu_shares, linux.cpuset_cpus) == (7, "1")
    # Where nobody tells what is in force, nothing is added.
    assert linux.memory_limit_in_bytes == (NEW if answers else 0)
    assert asked.container_resources.memory_limit_in_bytes == (NEW if answers else OLD)
    assert record.updates == 0


async def test_an_update_counts_as_under_way_until_it_ends(tmp_path):
    async with intercepting(requests, tmp_path) as client:
        await client.run_pod()
        await client.create()
        await client.ask(requests.update(cpuset_cpus="1"))
        assert client.record().updates == 1
        await client.end(None)
        assert client.record().updates == 0


async def test_an_update_is_sent_as_the_full_set(tmp_path):
    async with intercepting(requests, tmp_path) as client:
        await client.run_pod()
        await client.create()
        client.hooks.wants = SHARES
        sent = await client.do(requests.update(cpu_quota=7000, cpuset_cpus="1"))
        assert sent.whole.linux == cri.LinuxContainerResources(
            cpu_shares=7, cpu_quota=7000, cpuset_cpus="1"
        )
        assert sent.whole.annotations == {"c": "1"}
        assert client.hook_request().container_resources.cpuset_cpus == "1"
        # One that is the full set goes on as it came.
        client.hooks.wants = Patch()
        request = cri.UpdateContainerResourcesRequest.FromString(
            requests.update(cpu_shares=3, cpu_quota=9, cpuset_cpus="1").body
        )
        request.annotations["c"] = "1"
        assert await client.do(requests.call("UpdateContainerResources", request)) is None


BATCH = Patch(resources=LinuxResources(cpu_shares=1024, cpu_quota=100_000, memory_limit=NEW))
STATUS = "/runtime.v1.RuntimeService/ContainerStatus"


def reported(client: Any, message: bytes | None = None, **limits: int) -> dict[str, int] | None:
    """The limits that the kubelet gets where the runtime has these; ``None``: the same."""
    answer = cri.ContainerStatusResponse(status={"id": "c" * 64, "resources": {"linux": limits}})
    answer.status.id = client.record().id
    rewrite = client.interceptor.route(STATUS).answer
    found = rewrite(answer.SerializeToString() if message is None else message)
    if found is None:
        return None
    linux = cri.ContainerStatusResponse.FromString(found).status.resources.linux
    return {field.name: value for field, value in linux.ListFields()}


async def test_the_kubelet_gets_the_limits_that_it_asked_for(tmp_path):
    in_force = {"cpu_shares": 1024, "cpu_quota": 100_000, "memory_limit_in_bytes": NEW}
    async with intercepting(requests, tmp_path, Hooks(wants=BATCH)) as client:
        await client.run_pod()
        await client.create()
        asked = reported(client, oom_score_adj=9, **in_force)
        assert asked == {"cpu_shares": 2, "cpu_quota": 50_000, "oom_score_adj": 9}
        await client.do(requests.update(cpu_shares=512))
        assert reported(client, **in_force) == {"cpu_shares": 512, "cpu_quota": 50_000}
        await client.do(requests.update(cpu_shares=900), response=None)
        assert reported(client, **in_force) == {"cpu_shares": 512, "cpu_quota": 50_000}
        client.store.close()
        again = type(client.store)(str(tmp_path / "state.db"))
        assert again.get(client.record().kind, client.record().id) == client.record()
        again.close()


async def test_what_hooks_left_alone_or_nobody_can_read_goes_on_as_it_is(tmp_path):
    async with intercepting(requests, tmp_path) as client:
        await client.run_pod()
        await client.create()
        assert reported(client, cpu_shares=7) is None
        client.hooks.wants = BATCH
        await client.do(requests.update(cpuset_cpus="1"))
        assert reported(client, cpu_shares=1024) is not None
        assert reported(client, message=b"\xff") is None
        assert client.interceptor.route(STATUS.replace("v1.", "v1alpha2.")).answer is None
