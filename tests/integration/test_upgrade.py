"""An upgrade from the release before, and the way back, on what both keep and share.

Each step leaves a program of one release what one of the other has written: the proxy's records,
koordlet's registration and its journal with original values, the leader's Lease, and definitions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from koord_demo.programs import console_script
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.integration import test_node_repair as real_node
from tests.integration.test_node_repair import Node
from tests.support import koordlet_programs
from tests.support import proxy as programs
from tests.support.cri import batch_pod_config, pb, run_pod
from tests.support.embedded import EmbeddedRuntime
from tests.support.kubelet import expected
from tests.support.managed_cluster import managed_cluster, ready
from tests.support.manager_program import QUICK
from tests.support.pod_cases import BE
from tests.support.proxy import Koordlet, Proxy
from tests.support.release_before import ReleaseBefore, reference
from tests.support.waiting import until

groups, node = real_node.groups, real_node.node
pytestmark = pytest.mark.skipif(
    reference() is None, reason="this clone has neither a tag nor the commit that stands for one"
)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseBefore]:
    folder = tmp_path_factory.mktemp("release")
    yield ReleaseBefore(folder)
    shutil.rmtree(folder)


@pytest.fixture
def run_before(before: ReleaseBefore, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Switch between the releases: what starts next is of the one before, or ours."""

    def switch(*, to_before: bool) -> None:
        for module in (programs, koordlet_programs, real_node):
            script = before.script if to_before else console_script
            monkeypatch.setattr(module, "console_script", script)

    return switch


UP_AND_DOWN = [False, True]
"""An upgrade, then a downgrade: the release before comes second."""


@pytest.mark.parametrize("to_before", UP_AND_DOWN, ids=["upgrade", "downgrade"])
def test_records_and_registrations(
    directory: Path, runtime: EmbeddedRuntime, run_before: Any, *, to_before: bool
) -> None:
    hooks = directory / "hookserver.d"
    run_before(to_before=not to_before)
    with Proxy(directory, runtime.address) as proxy, Koordlet(directory, hooks) as koordlet:
        proxy.wait_for_server("koordlet")
        with proxy.cri() as cri:
            pod = run_pod(cri, batch_pod_config())
        kept = proxy.containers()
        assert kept[pod.container_id]["managed"]
        # The proxy first: it is the other koordlet's registration that it reads.
        assert proxy.stop() == 0
        run_before(to_before=to_before)
        proxy.start()
        proxy.wait_for_server("koordlet")
        assert proxy.healthz()["database"] == "ok"
        assert proxy.containers().keys() == kept.keys()
        assert proxy.containers()[pod.container_id]["managed"]
        assert koordlet.stop() == 0
        koordlet.start()
        proxy.wait_for_breaker_not_open("koordlet")
        with proxy.cri() as cri:
            cri.update_container_resources(
                pod.container_id, pb.LinuxContainerResources(cpu_shares=2)
            )
            other = run_pod(cri, batch_pod_config())
        assert proxy.containers()[other.container_id]["managed"]
        assert "Traceback" not in proxy.said + koordlet.said


@pytest.mark.containerd
@pytest.mark.skipif(real_node.kubepods.why_not() is not None, reason="needs cgroups of pods")
@pytest.mark.parametrize("to_before", UP_AND_DOWN, ids=["upgrade", "downgrade"])
def test_original_values_are_put_back_by_the_other(
    node: Node, run_before: Any, *, to_before: bool
) -> None:
    pod = node.start(BE)
    found = node.kubelet.seen(pod)
    run_before(to_before=not to_before)
    with node.koordlet() as koordlet:
        node.settles(pod)
        koordlet.finish()
    run_before(to_before=to_before)
    with node.koordlet() as koordlet:
        node.settles(pod)
        koordlet.comes_to_rest()
        assert node.kubelet.seen(pod) == expected(pod.case)
        koordlet.finish()
    done = node.koordctl_restore()
    assert (done.returncode, done.stderr) == (0, "")
    assert node.kubelet.seen(pod) == found


async def test_the_lease_goes_from_one_to_the_other_and_back(
    before: ReleaseBefore, tmp_path: Path
) -> None:
    async with managed_cluster(tmp_path) as cluster:
        old = cluster.manager("before", *QUICK)
        old._inside = tuple(before.environment)
        old.start()
        await ready(old)
        await until(lambda: cluster.holder == "before", "the release before leads")
        new = await cluster.started("after", *QUICK, leads=False)
        old.stop()
        await until(lambda: cluster.holder == "after", "this release leads")
        old.start()
        await ready(old)
        assert cluster.holder == "after"
        new.stop()
        await until(lambda: cluster.holder == "before", "the release before leads again")


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Each field of a schema with its type."""
    yield path, str(schema.get("type"))
    for name, one in schema.get("properties", {}).items():
        yield from fields(one, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from fields(schema[key], f"{path}[]")


def test_definitions_lose_nothing(before: ReleaseBefore) -> None:
    code = "import json; from koord_kube.definitions import catalogue; "
    old = json.loads(before.run(code + "print(json.dumps([*catalogue.DEFINITIONS]))"))
    ours = {one["metadata"]["name"]: one["spec"] for one in DEFINITIONS}
    for definition in old:
        spec, now = definition["spec"], ours[definition["metadata"]["name"]]
        assert (spec["names"], spec["scope"]) == (now["names"], now["scope"])
        versions = {one["name"]: one for one in now["versions"]}
        for version in spec["versions"]:
            other = versions[version["name"]]
            assert (version["served"], version["storage"]) <= (other["served"], other["storage"])
            schemas = (one["schema"]["openAPIV3Schema"] for one in (version, other))
            lost = set(fields(next(schemas))) - set(fields(next(schemas)))
            assert lost == set(), definition["metadata"]["name"]
