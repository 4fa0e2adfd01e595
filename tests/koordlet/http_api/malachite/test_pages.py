"""When Malachite's pages have an answer, and which one."""

from __future__ import annotations

from pathlib import Path

import pytest
from koord_service.status import QueryError

from tests.support.recorded_node import RecordedNode

GROUP = "/kubepods/burstable/pod1"
LATE = "/system.slice"


def texts(idle: int = 1000, iowait: int = 100, usage: int = 0) -> dict[str, str]:
    cpu = f"500 0 300 {idle} {iowait} 0 0 0 0 0"
    return {
        "/proc/stat": f"cpu  {cpu}\ncpu0 {cpu}\nintr 1\n",
        "/proc/loadavg": "0.5 0.4 0.3 1/2 3\n",
        "/proc/1/net/dev": "Inter-|\n face |\n",
        **{
            f"/sys/fs/cgroup{group}/cpu.stat": f"usage_usec {usage}\nuser_usec 0\nsystem_usec 0\n"
            for group in (GROUP, LATE)
        },
    }


@pytest.fixture
def node(tmp_path: Path) -> RecordedNode:
    return RecordedNode(tmp_path, texts())


def refusal(node: RecordedNode, path: str, **values: str) -> tuple[int, str]:
    with pytest.raises(QueryError) as refused:
        node.get(path, **values)
    return refused.value.status, str(refused.value)


def cores(node: RecordedNode, group: str) -> float:
    groups = node.get("cgroup/groups", cgroup_user_path=group)["sub_system_groups"]
    found: float = groups["Cpuacct"]["Cpu"]["V2"]["cpu_usage_ratio"]
    return found


def test_usage_is_unknown_until_it_has_grown(node: RecordedNode) -> None:
    node.at += 0.5
    assert refusal(node, "system/compute")[0] == 503
    node.at += 1.5
    node.put(texts(idle=1180, iowait=120, usage=3_000_000))
    assert node.get("system/compute")["global_cpu"]["cpu_iowait_ratio"] == 0.1
    # Pods' groups are read at the start; another one is known from its second question on.
    assert cores(node, GROUP) == 1.5
    assert refusal(node, "cgroup/groups", cgroup_user_path=LATE)[0] == 503
    node.at += 2
    node.put(texts(idle=1380, iowait=110, usage=4_000_000))
    assert cores(node, LATE) == 0.5
    # The kernel's iowait may go back.
    assert node.get("system/compute")["global_cpu"]["cpu_iowait_ratio"] == 0


def test_two_questions_in_a_row_have_one_answer(node: RecordedNode) -> None:
    node.at += 2
    node.put(texts(usage=1_000_000))
    first = cores(node, GROUP)
    node.at += 0.2
    node.put(texts(usage=2_000_000))
    assert cores(node, GROUP) == first == 0.5


def test_a_group_that_began_anew_has_not_grown(node: RecordedNode) -> None:
    node.put(texts(usage=1_000_000))
    node.at += 2
    cores(node, GROUP)
    node.put(texts(usage=10))
    node.at += 2
    assert refusal(node, "cgroup/groups", cgroup_user_path=GROUP)[0] == 503


@pytest.mark.parametrize(
    ("path", "status"),
    [("", 400), ("/../../etc", 400), ("a/./b", 400), ("a//b", 400), ("/gone/for/good", 404)],
)
def test_other_groups_and_other_files(node: RecordedNode, path: str, status: int) -> None:
    assert refusal(node, "cgroup/groups", cgroup_user_path=path)[0] == status


def test_what_a_machine_does_not_have(tmp_path: Path) -> None:
    old = RecordedNode(tmp_path, {"/proc/1/net/dev": ""}, version=1)
    assert refusal(old, "cgroup/groups", cgroup_user_path=GROUP)[0] == 501
    assert refusal(old, "realtime/freq")[0] == refusal(old, "realtime/resctrl")[0] == 404
    assert refusal(old, "system/memory") == (503, refusal(old, "system/memory")[1])
    assert "meminfo" in refusal(old, "system/memory")[1]
