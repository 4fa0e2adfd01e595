"""The contract of reconciliation, for both runtimes: records match what the runtime has.

What only one of them does is in ``cri/test_reconciling.py`` and ``docker/test_reconciling.py``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from koord_proxy import reconciler
from koord_proxy.contract.runtime_client import RuntimeCallError, RuntimeNotFoundError
from koord_proxy.rules.records import MissedHookCall, RecordKind

from tests.support.processes import PATIENCE
from tests.support.runtime_nodes import CriNode, DockerNode, container_record, pod_record
from tests.support.waiting import until

POD, CONTAINER = RecordKind.POD, RecordKind.CONTAINER


@pytest.fixture(params=[CriNode, DockerNode], ids=["cri", "docker"])
def node(request: pytest.FixtureRequest, new_node: Any) -> Any:
    return new_node(request.param)


class TestRun:
    async def test_what_is_unknown_is_adopted(self, node, caplog):
        sandbox, container = node.make("worker")
        missed = MissedHookCall("PreRunPodSandbox", "koordlet", "not looked", 1.0)
        reconciler = node.new_reconciler(missed=lambda _: [missed])
        async with node.serving():
            await reconciler.run()
        assert reconciler.done
        pod, one = node.store.get(POD, sandbox), node.store.get(CONTAINER, container)
        assert (pod.hook_request.pod_meta.name, pod.hook_request.pod_meta.uid) == (
            "worker",
            node.uid("worker"),
        )
        assert one.sandbox == sandbox
        assert one.hook_request.pod_meta == pod.hook_request.pod_meta
        assert one.hook_request.pod_annotations == pod.hook_request.annotations != {}
        assert one.hook_request.pod_labels == pod.hook_request.labels != {}
        assert one.hook_request.pod_cgroup_parent == pod.hook_request.cgroup_parent != ""
        assert one.hook_request.container_meta.id == container
        assert one.hook_request.container_resources.cpu_shares == 2
        # It was made without its hooks.
        assert pod.missed == one.missed == [missed]
        event = caplog.records[-1]
        assert event.getMessage() == "records match the runtime"
        assert event.fields == {"pods": 1, "containers": 1, "dropped": 0, "adopted": 2}
        node.killed()
        assert node.store.get(CONTAINER, container) == one

    async def test_what_is_gone_is_dropped(self, node, caplog):
        sandbox, container = node.make("worker")
        known = container_record(container, sandbox)
        for record in (pod_record("p"), pod_record(sandbox), container_record("c"), known):
            node.store.put(record)
        node.store.put(container_record("d", sandbox))
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(POD) == {sandbox}
        # What is known is not looked up again.
        assert node.store.records(CONTAINER) == [known]
        fields = caplog.records[-1].fields
        assert (fields["dropped"], fields["adopted"]) == (3, 0)

    async def test_what_has_ended_is_neither_dropped_nor_adopted(self, node):
        node.stop(*node.make("stopped"))
        sandbox, container = node.make("known")
        node.store.put(pod_record(sandbox))
        node.store.put(container_record(container, sandbox))
        node.stop(sandbox, container)
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(POD) == {sandbox}
        assert node.ids(CONTAINER) == {container}

    async def test_what_was_expected_before_a_kill_came(self, node):
        node.store.expect(pod_record("", node.uid("worker"), labels={"hook": "1"}))
        sandbox = node.run_pod("worker")
        secret = {"SECRET": "hunter2"}
        node.store.expect(container_record("", sandbox, container_envs=secret))
        container = node.create(sandbox, "worker")
        node.killed()
        assert node.store.left_over
        async with node.serving():
            await node.reconciler.run()
        # As hooks left it, and not as the runtime has it.
        assert node.store.get(POD, sandbox).hook_request.labels == {"hook": "1"}
        hook_request = node.store.get(CONTAINER, container).hook_request
        assert (hook_request.container_envs, hook_request.container_meta.id) == (secret, container)
        assert not node.store.left_over

    async def test_what_was_expected_may_come_late(self, node):
        node.store.expect(pod_record("", node.uid("worker"), labels={"hook": "1"}))
        node.killed()
        async with node.serving():
            running = asyncio.get_running_loop().create_task(node.reconciler.run())
            await until(lambda: node.reconciler.done)
            assert not running.done()
            sandbox = node.run_pod("worker")
            await asyncio.wait_for(running, PATIENCE)
        assert node.store.get(POD, sandbox).hook_request.labels == {"hook": "1"}

    async def test_what_does_not_come_is_forgotten(self, node, monkeypatch):
        monkeypatch.setattr(reconciler, "LEFT_OVER_SECONDS", 0.1)
        node.store.expect(pod_record(""))
        node.killed()
        async with node.serving():
            await asyncio.wait_for(node.reconciler.run(), PATIENCE)
        assert not node.store.left_over
        assert node.reconciler.done

    async def test_what_a_call_is_making_is_not_adopted(self, node):
        """The runtime lists it before the call has ended: that will say with what it was made."""
        record = pod_record("", node.uid("worker"))
        node.store.expect(record)
        sandbox = node.run_pod("worker")
        async with node.serving():
            await node.reconciler.run()
        assert node.ids(POD) == set()
        node.store.made(record, sandbox)
        assert node.store.get(POD, sandbox) is record

    async def test_the_runtime_comes_later(self, node, caplog):
        sandbox, _ = node.make("worker")
        tries: list[str] = []

        def connect(path: str) -> Any:
            tries.append(path)
            return node.client(path)

        again = node.new_reconciler(connect)
        running = asyncio.get_running_loop().create_task(again.run())
        await until(lambda: len(tries) > 3)
        assert not again.done
        # Tried several times, logged once.
        [event] = caplog.records
        assert event.getMessage() == "waiting for the runtime's lists"
        assert str(node.path) in event.fields["error"]
        async with node.serving():
            await asyncio.wait_for(running, PATIENCE)
        assert node.ids(POD) == {sandbox}

    async def test_a_call_made_meanwhile_knows_better(self, node):
        sandbox, container = node.make("worker")
        better = container_record(container, sandbox)

        class Slow(node.client):
            async def container(self, identity: str) -> Any:
                found = await super().container(identity)
                node.store.put(better)
                return found

        async with node.serving():
            await node.new_reconciler(Slow).run()
        assert node.store.get(CONTAINER, container) is better

    async def test_what_a_call_makes_while_lists_are_read_is_not_dropped(self, node):
        class Slow(node.client):
            async def containers(self) -> Any:
                found = await super().containers()
                node.store.put(pod_record("new"))
                node.store.put(container_record("fresh", "new"))
                return found

        async with node.serving():
            await node.new_reconciler(Slow).run()
        assert node.ids(POD) == {"new"}
        assert node.ids(CONTAINER) == {"fresh"}

    async def test_what_ends_while_it_is_adopted_disturbs_no_other(self, node, caplog):
        first, other = node.make("first"), node.make("other")
        racing = {first[0]}

        class Racing(node.client):
            async def pod(self, identity: str) -> Any:
                if identity in racing:
                    racing.clear()
                    node.remove(identity)
                return await super().pod(identity)

        again = node.new_reconciler(Racing)
        async with node.serving():
            await again.run()
        assert again.done
        assert node.ids(POD) == {other[0]}
        assert caplog.records[-1].fields["adopted"] == 2

    async def test_it_is_done_again_when_it_is_due(self, node):
        async with node.serving():
            running = asyncio.get_running_loop().create_task(node.reconciler.run_forever())
            await until(lambda: node.reconciler.done)
            sandbox, container = node.make("behind")
            node.reconciler.wake()
            await until(lambda: node.ids(CONTAINER) == {container})
            assert node.ids(POD) == {sandbox}
            running.cancel()


class TestLimits:
    """Somebody changed them past the proxy: the runtime is believed."""

    def known(self, node: Any, **limits: Any) -> Any:
        """A container that runs with 2 shares, as the records have it."""
        sandbox, container = node.make("worker")
        node.store.put(pod_record(sandbox))
        record = container_record(
            container, sandbox, container_envs={"A": "b"}, container_resources=limits
        )
        node.store.put(record)
        return record

    async def test_at_the_start(self, node, caplog):
        record = self.known(node, cpu_shares=1024, cpuset_cpus="5")
        node.killed()
        async with node.serving():
            await node.reconciler.run()
        [record] = node.store.records(CONTAINER)
        assert record.hook_request.container_resources.cpu_shares == 2
        assert record.hook_request.container_envs == {"A": "b"}
        assert "limits were changed past the proxy" in caplog.messages
        node.killed()
        assert node.store.records(CONTAINER) == [record]

    async def test_after_a_gap(self, node):
        record = self.known(node, cpu_shares=2)
        async with node.serving():
            running = asyncio.get_running_loop().create_task(node.reconciler.run_forever())
            await until(lambda: node.reconciler.done)
            record.hook_request = container_record(
                "", container_resources={"cpu_shares": 7}
            ).hook_request
            node.reconciler.runtime_returned()
            await until(lambda: record.hook_request.container_resources.cpu_shares == 2)
            running.cancel()

    async def test_before_an_update(self, node):
        record = self.known(node, cpu_shares=1024)
        async with node.serving():
            assert await node.reconciler.refresh(record)
        assert record.hook_request.container_resources.cpu_shares == 2

    async def test_a_call_under_way_knows_better(self, node):
        record = self.known(node, cpu_shares=1024)
        record.updates = 1
        async with node.serving():
            assert await node.reconciler.refresh(record)
            await node.reconciler.run()
        assert record.hook_request.container_resources.cpu_shares == 1024

    async def test_so_does_one_made_meanwhile(self, node):
        record = self.known(node, cpu_shares=1024)
        newer = container_record("", container_resources={"cpu_shares": 512}).hook_request

        class Slow(node.client):
            async def container(self, identity: str) -> Any:
                found = await super().container(identity)
                record.hook_request = newer
                return found

        async with node.serving():
            assert await node.new_reconciler(Slow).refresh(record)
        assert record.hook_request is newer

    async def test_with_nobody_there(self, node, caplog):
        record = self.known(node, cpu_shares=1024)
        assert not await node.reconciler.refresh(record)
        assert caplog.messages == ["limits not looked up"]

    async def test_of_one_that_is_gone(self, node):
        async with node.serving():
            assert await node.reconciler.refresh(container_record("gone"))


class TestAdopt:
    async def test_a_pod(self, node):
        sandbox, _ = node.make("worker")
        async with node.serving():
            record = await node.reconciler.adopt(POD, sandbox)
        assert record is node.store.get(POD, sandbox)
        assert record.hook_request.pod_meta.name == "worker"

    async def test_a_container_with_its_pod(self, node):
        sandbox, container = node.make("worker")
        async with node.serving():
            record = await node.reconciler.adopt(CONTAINER, container)
        assert record.sandbox == sandbox
        assert node.ids(POD) == {sandbox}
        assert (
            record.hook_request.pod_annotations
            == node.store.get(POD, sandbox).hook_request.annotations
        )

    @pytest.mark.parametrize("kind", list(RecordKind))
    async def test_what_nobody_knows(self, node, kind, caplog):
        async with node.serving():
            with pytest.raises(RuntimeNotFoundError):
                await node.reconciler.adopt(kind, "unknown")
        assert [one for one in caplog.records if one.name.startswith("koord")] == []

    async def test_with_nobody_there(self, node, caplog):
        assert await node.reconciler.adopt(POD, "x") is None
        assert str(node.path) in caplog.records[0].fields["error"]

    async def test_a_runtime_that_does_not_answer(self, node, caplog, monkeypatch):
        """A call waits for it, but not long."""
        monkeypatch.setattr(reconciler, "ADOPT_SECONDS", 0.1)

        class Hung(node.client):
            async def pod(self, identity: str) -> Any:
                await asyncio.sleep(60)
                raise RuntimeCallError

        assert await node.new_reconciler(Hung).adopt(POD, "x") is None
        assert caplog.records[0].fields["error"] == "no answer"
