from __future__ import annotations

import json

from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.pod_reader import PodReader


def test_a_wrong_column_is_found_once_and_repaired() -> None:
    scheduler = Scheduler([])
    reader = PodReader(scheduler.nodes)
    for number in range(700):
        node = {"metadata": {"name": f"n{number}"}, "status": {"allocatable": {"cpu": "4"}}}
        scheduler.nodes.set(read_node(json.dumps(node).encode()))
        requests = {"cpu": "500m", "example.com/gpu": 1}
        containers = [{"name": "c", "resources": {"requests": requests}}] * 2
        spec = {"nodeName": f"n{number}", "containers": containers}
        pod = {"metadata": {"name": f"p{number}", "namespace": "d"}, "spec": spec}
        scheduler.set_pod(reader.read(json.dumps(pod).encode()), 0.0)
    check = SelfCheck(scheduler.nodes, scheduler.placed)
    assert [check.check_some() for _ in range(ROUND_SECONDS)] == [[]] * ROUND_SECONDS
    resources = scheduler.nodes.resources
    before = resources.requested.copy(), resources.scored.copy()
    gpu, wrong = resources.column("example.com/gpu"), scheduler.nodes.row("n300")
    resources.requested[gpu, wrong] += 1
    resources.scored[0, scheduler.nodes.row("n699")] = 0
    position = scheduler.nodes.journal.position
    found = [name for _ in range(ROUND_SECONDS) for name in check.check_some()]
    assert sorted(found) == ["n300", "n699"]
    assert check.repaired == 2
    assert (resources.requested == before[0]).all()
    assert (resources.scored == before[1]).all()
    assert scheduler.nodes.journal.position == position + 2
