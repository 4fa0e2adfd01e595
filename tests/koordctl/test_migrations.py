"""``koordctl migrations``: jobs as they stand, the newest first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.protocol.resources import POD_MIGRATION_JOBS
from koordctl.amounts import UNKNOWN
from koordctl.migrations import lines
from koordctl.output.tables import plain

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi


def put(api: KubeApi, name: str, pod: str, at: str, **status: Any) -> None:
    api.time = at
    annotations = {
        "koordinator.sh/evict-trigger": "LowNodeLoad",
        "koordinator.sh/evict-reason": "node is overutilized",
    }
    document = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"podRef": {"namespace": "shop", "name": pod}},
        "status": status,
    }
    api.put(POD_MIGRATION_JOBS, document)


@pytest.fixture
def jobs(api: KubeApi) -> KubeApi:
    put(api, "new", "a", "2026-01-01T00:01:00Z")
    put(
        api,
        "old",
        "b",
        "2026-01-01T00:00:00Z",
        phase="Succeeded",
        nodeName="node-2",
        podRef={"namespace": "shop", "name": "c"},
        message="Bind Pod",
    )
    put(api, "lost", "d", "2026-01-01T00:00:30Z", phase="Failed", reason="Timeout", message="late")
    return api


def test_a_line_for_each_with_what_is_known(jobs: KubeApi) -> None:
    found = [one for key, one in jobs.objects.items() if key.resource == POD_MIGRATION_JOBS]
    header, new, old, lost = plain(lines(found, lambda: 1767225690.0))
    assert header.split() == ["NAME", "PHASE", "POD", "NODE", "NEW", "POD", "AGE", "BY", "WHY"]
    assert new.split(maxsplit=7) == [
        *("new", "Pending", "shop/a", UNKNOWN, UNKNOWN, "30s", "LowNodeLoad"),
        "node is overutilized",
    ]
    assert old.split(maxsplit=7)[1:6] == ["Succeeded", "shop/b", "node-2", "shop/c", "1m30s"]
    assert lost.endswith("Timeout: late")


async def test_the_newest_come_first(jobs: KubeApi, ctl: Ctl) -> None:
    code, out, _ = await ctl("migrations")
    assert (code, [line.split()[0] for line in out.splitlines()[1:]]) == (
        0,
        ["new", "lost", "old"],
    )


@pytest.mark.parametrize(
    ("words", "names"),
    [(["shop/c"], ["old"]), (["--under-way"], ["new"]), (["shop/d", "--under-way"], [])],
)
async def test_some_of_them(jobs: KubeApi, ctl: Ctl, words: list[str], names: list[str]) -> None:
    _, out, _ = await ctl("migrations", *words, "--json")
    assert [job["metadata"]["name"] for job in json.loads(out)] == names
    if not names:
        assert (await ctl("migrations", *words))[1] == "No migration found.\n"
