"""kubectl works with the double of the API server, where there is one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import DEFINITIONS, NODES

from tests.support.kube_api import KubeApi
from tests.support_selftest.kube_clients import node, pod
from tests.support_selftest.test_kube_definitions import definition, thing

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

Kubectl = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def kubectl(api: KubeApi, tmp_path: Path) -> Kubectl:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": "/dev/null"}

    async def run(*words: str, given: Any = None) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *("kubectl", f"--server={api.url}", f"--cache-dir={tmp_path}/cache", *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        said, _ = await process.communicate(json.dumps(given).encode() if given else b"")
        return process.returncode or 0, said.decode()

    return run


async def test_nodes(api: KubeApi, kubectl: Kubectl) -> None:
    api.put(NODES, node("n1"))
    code, said = await kubectl("get", "no", "-o", "name")
    assert (code, said) == (0, "node/n1\n")
    assert (await kubectl("label", "node", "n1", "a=b"))[0] == 0
    assert (await kubectl("cordon", "n1"))[0] == 0
    kept = api.get(NODES, "n1")
    assert (kept["metadata"]["labels"], kept["spec"]) == ({"a": "b"}, {"unschedulable": True})
    code, said = await kubectl("get", "node", "n2")
    assert (code, said) == (1, 'Error from server (NotFound): nodes "n2" not found\n')


async def test_what_a_definition_makes(api: KubeApi, kubectl: Kubectl) -> None:
    api.put(DEFINITIONS, definition())
    apply = ("apply", "--validate=false", "-f", "-")
    assert (await kubectl(*apply, given=thing()))[0] == 0
    assert (await kubectl(*apply, given=thing(size=4)))[0] == 0
    code, said = await kubectl(*apply, given=thing(size=44))
    assert code == 1
    assert "spec.size: Invalid value: 44" in said
    assert (await kubectl("get", "thing", "t", "-o", "jsonpath={.spec.size}"))[1] == "4"
    assert (await kubectl("delete", "things", "t"))[0] == 0


async def test_a_pod_that_waits_for_its_kubelet(api: KubeApi, kubectl: Kubectl) -> None:
    create = ("create", "--validate=false", "-n", "ns", "-f", "-")
    assert (await kubectl(*create, given=pod(spec={"nodeName": "n1"})))[0] == 0
    assert (await kubectl("delete", "pod", "p", "-n", "ns", "--wait=false"))[0] == 0
    said = (await kubectl("get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.name}"))[1]
    assert said == "p"
    assert (await kubectl("delete", "pod", "p", "-n", "ns", "--force", "--grace-period=0"))[0] == 0
    assert api.objects == {}
