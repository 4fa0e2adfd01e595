"""``koordctl why pending`` and ``why scheduled``: whom they ask, and what they print."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from koord_kube.protocol.resources import LEASES, PODS, Resource
from koord_service.status import json_page
from koordctl.output.documents import renamed
from koordctl.output.tables import plain
from koordctl.placement_text import quota_lines, scheduled_lines, waiting_lines
from koordctl.scheduler_documents import PlacementDocument, QuotaRefusalRow

from koordctl import cluster_client
from tests.koordctl.conftest import Failing, Run, Serve

DIAGNOSIS = {
    "message": "0/53 nodes are available: …",
    "nodes": 53,
    "feasible": 0,
    "plugins": [
        {"plugin": "TaintToleration", "nodes": 13, "alone": 12},
        {"plugin": "NodeResourcesFit", "nodes": 41, "alone": 40},
    ],
    "reasons": {"node(s) had untolerated taint(s)": 13, "Insufficient cpu": 40},
    "nearest": [
        {"node": "n39", "lacks": {"cpu": "500m", "memory": "1Gi"}, "plugins": []},
        {"node": "n4", "lacks": {}, "plugins": ["TaintToleration"]},
    ],
    "wakes_on": ["taints that go", "pods that end"],
}
WAITS = {
    "pod": "shop/web",
    "state": "unschedulable",
    "at": 1_795_168_860.0,
    "since": 1_795_168_800.0,
    "priority": 1000,
    "diagnosis": DIAGNOSIS,
}
BEST = [
    {"rank": 1, "node": "n3", "total": 391, "by_plugin": {"Taint": 300, "Fit": 91, "Image": 0}},
    {"rank": 37, "node": "n17", "total": 340, "by_plugin": {"Taint": 300, "Fit": 40, "Image": 0}},
]
RUNS = {
    "pod": "shop/web",
    "state": "bound",
    "node": "n17",
    "nodes": 53,
    "feasible": 40,
    "best": BEST,
}


def waiting(**changes: Any) -> list[str]:
    found = msgspec.convert({**WAITS, **changes}, PlacementDocument)
    return plain(waiting_lines(found, datetime.UTC))


def scheduled(**changes: Any) -> list[str]:
    return plain(scheduled_lines(msgspec.convert({**RUNS, **changes}, PlacementDocument)))


def rows(lines: list[str], first: str) -> list[list[str]]:
    """The words of the lines from the one that begins so to the next empty one."""
    start = next(number for number, line in enumerate(lines) if line.strip().startswith(first))
    end = next((n for n in range(start, len(lines)) if not lines[n]), len(lines))
    return [line.split() for line in lines[start:end]]


def test_a_pod_that_waits() -> None:
    lines = waiting()
    assert lines[0].startswith("shop/web is unschedulable")
    assert rows(lines, "since") == [
        ["since", "2026-11-20", "10:00:00", "(1", "min)"],
        ["priority", "1000"],
    ]
    assert rows(lines, "REJECTED BY")[1:] == [
        ["TaintToleration", "13", "12"],
        ["NodeResourcesFit", "41", "40"],
    ]
    assert [one[-1] for one in rows(lines, "FIRST REASON")[1:]] == ["40", "13"]
    assert "  n39 lacks 500m cpu, 1Gi memory" in lines
    assert "  n4 is rejected by TaintToleration" in lines
    assert lines[-2:] == ["  taints that go", "  or pods that end"]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"state": "gated", "gates": ["a/b", "c"], "diagnosis": None}, ["gates", "a/b,", "c"]),
        (
            {"state": "backoff", "retry_seconds": 4.2, "attempts": 3},
            ["next", "attempt", "in", "4", "s"],
        ),
        ({"attempts": 3}, ["failed", "attempts", "3"]),
        ({"extender_failure": "failed filter"}, ["extender", "failed", "filter"]),
        ({"nominated_node": "n9"}, ["nominated", "node", "n9"]),
        ({"paused": "pods: not read yet"}, ["no", "decisions", "pods:", "not", "read", "yet"]),
    ],
)
def test_what_else_a_pod_waits_for(changes: dict[str, Any], shown: list[str]) -> None:
    assert shown in rows(waiting(**changes), "since")
    assert shown not in rows(waiting(), "since")


def test_a_pod_of_a_gang_waits_for_the_others() -> None:
    gang = {"group": "shop/g", "waiting": 4, "needed": 3, "fitted": 2, "failed": "shop/g-2"}
    lines = waiting(gang=gang)
    assert rows(lines, "2 of 4 fit")[0][-1] == "shop/g-2:"
    assert "  n39 lacks 500m cpu, 1Gi memory" in lines
    reason = "gang shop/g needs 3 pods: 2 there"
    assert waiting(gang={**gang, "reason": reason}, diagnosis=None)[-1].endswith(reason)
    assert "minCount 3" in "".join(waiting(gang={**gang, "policy": "minCount 3"}))
    fits = {**gang, "fitted": 4, "failed": ""}
    assert "All 4 fit now" in waiting(gang=fits, diagnosis=None)[-1]


def test_a_pod_that_fits_is_shown_where() -> None:
    fits = {**DIAGNOSIS, "feasible": 2}
    lines = waiting(state="active", diagnosis=fits, held_nodes=1, best=BEST)
    assert "It fits on 2 of 53 nodes, 1 of them kept for nominated pods" in lines
    assert ["1", "n3", "391"] in rows(lines, "RANK")
    assert not [line for line in lines if "Nearest" in line or "may fit" in line]


def test_a_pod_that_is_rejected_before_nodes_are_looked_at_has_the_message() -> None:
    assert "  0/53 nodes are available: …" in waiting(diagnosis={**DIAGNOSIS, "reasons": {}})


def test_a_pod_that_has_a_node() -> None:
    lines = scheduled()
    assert lines[0] == "shop/web is on n17"
    assert rows(lines, "RANK")[1:] == [["1", "n3", "391"], ["37", "n17", "340", "its", "node"]]
    # What gives nothing to any of them is left out.
    assert rows(lines, "SCORE BY PLUGIN") == [
        ["SCORE", "BY", "PLUGIN", "#1", "#37"],
        ["Taint", "300", "300"],
        ["Fit", "91", "40"],
    ]
    assert "not confirmed" in scheduled(state="assumed")[0]
    assert "not in the cluster" in scheduled(is_node=False, best=[])[2]
    assert "NodePorts, NodeName" in scheduled(rejected_by=["NodePorts", "NodeName"])[2]


def test_one_line_where_there_is_nothing_to_explain() -> None:
    reason = "there is no pod shop/web\x1b"
    assert waiting(reason=reason) == ["there is no pod shop/web�."]
    assert scheduled(reason=reason) == waiting(reason=reason)
    [line] = scheduled(node="")
    assert "koordctl why pending shop/web" in line
    [line] = waiting(node="n17")
    assert "koordctl why scheduled shop/web" in line


@pytest.mark.parametrize("command", ["pending", "scheduled"])
def test_the_answer_as_json(serve: Serve, run: Run, command: str) -> None:
    page = serve(**{"v1/why": json_page(WAITS)})
    out = run("why", command, "shop/web", "--address", page.address, "--json")
    assert json.loads(out) == renamed(WAITS, PlacementDocument)
    assert run("why", command, "shop/web", "--address", page.address) != out


def test_answers_of_another_program(serve: Serve, failing: Failing) -> None:
    page = serve(**{"v1/why": json_page({"strategies": []})})
    code, line = failing("why", "pending", "shop/web", "--address", page.address)
    assert code == 1
    assert "koord-scheduler's answer cannot be read" in line


@pytest.mark.parametrize("pod", ["web", "shop/", "/web", "a/b/c", ""])
def test_what_is_not_a_pod(failing: Failing, pod: str) -> None:
    assert failing("why", "pending", pod)[0] == 2


class FakeApi:
    """An API server with one Lease, in front of one pod."""

    def __init__(self, holder: str | None) -> None:
        self.holder = holder
        self.asked: list[object] = []

    async def get(self, resource: Resource, name: str, namespace: str) -> Mapping[str, Any]:
        self.asked.append((resource, name, namespace))
        return {"spec": {"holderIdentity": self.holder}}

    async def read(self, *asked: object) -> bytes:
        self.asked.append(asked)
        return json_page(WAITS).body


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    made = FakeApi("s1_0f")
    ask = lambda _, question: asyncio.run(question(made))  # noqa: E731
    monkeypatch.setattr(cluster_client, "ask_cluster", ask)
    return made


def test_the_leader_is_asked_through_the_api_server(fake: FakeApi, run: Run) -> None:
    assert "shop/web" in run("why", "pending", "shop/web")
    asked, fake.asked = fake.asked, []
    assert asked[0] == (LEASES, "koord-scheduler", "koordinator-system")
    where = ("--namespace", "batch", "--lease", "kube-scheduler")
    run("why", "pending", "shop/web", *where)
    assert fake.asked == [
        (LEASES, "kube-scheduler", "batch"),
        (PODS, "http:s1:10251", "batch", "proxy/v1/why", {"pod": "shop/web"}),
    ]


@pytest.mark.parametrize("holder", ["", None])
def test_nobody_leads(fake: FakeApi, failing: Failing, holder: str | None) -> None:
    fake.holder = holder
    code, line = failing("why", "pending", "shop/web")
    assert code == 1
    assert "no scheduler leads" in line


def test_a_quota_that_refuses_is_shown_with_who_has_it() -> None:
    row = QuotaRefusalRow(
        "org",
        path=["org", "team"],
        limit={"cpu": "5", "memory": "1Gi"},
        used={"cpu": "3"},
        lacks={"cpu": "2"},
        resource="cpu",
        holders={"shop/a": "2"},
        borrowers={"other": "4"},
    )
    first, header, amounts, holders, borrowers = plain(quota_lines(row))
    assert "org, above team" in first
    assert header.split() == ["RESOURCE", "LIMIT", "USED", "LACKS"]
    assert amounts.split() == ["cpu", "5", "3", "2"]
    assert holders.endswith("shop/a 2")
    assert borrowers.endswith("other 4")
