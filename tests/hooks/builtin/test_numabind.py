"""Memory of best-effort pods that are bound to a NUMA node."""

from __future__ import annotations

import pytest
from koord_hooks.builtin import numabind
from koord_model.keys import ANNOTATION_NUMA_BIND_RESULT, ANNOTATION_RESOURCE_STATUS, LABEL_QOS
from koord_model.node import NodeView, SharedPool, Topology
from koord_model.patch import Patch
from koord_model.pod import Container, Pod

NODE = NodeView(Topology((SharedPool(0, "0-7"), SharedPool(1, "8-15"))))
PLACED = '{"numaNodeResources": [{"node": 1, "resources": {"kubernetes.io/batch-cpu": 1000}}]}'


def bound(result: str = "", status: str = "", qos: str = "BE", view: NodeView = NODE) -> Patch:
    given = {ANNOTATION_NUMA_BIND_RESULT: result, ANNOTATION_RESOURCE_STATUS: status}
    annotations = {key: text for key, text in given.items() if text}
    pod = Pod("p", "n", "u", {LABEL_QOS: qos}, annotations)
    patch = numabind.pre_create_container(Container(pod, "main"), view)
    assert patch == numabind.pre_update_container_resources(Container(pod, "main"), view)
    return patch or Patch()


@pytest.mark.parametrize(
    ("patch", "mems"),
    [
        (bound("0", PLACED), "0"),
        (bound("", PLACED), "1"),
        (bound("0-1"), "0-1"),
        (bound(), None),
        (bound("0", qos="LS"), None),
        (bound("0", view=NodeView()), None),
    ],
)
def test_memory_is_on_the_nodes_of_katalyst_or_of_the_scheduler(
    patch: Patch, mems: str | None
) -> None:
    assert (patch.resources.cpuset_mems, patch.ignored) == (mems, ())


def test_a_node_that_there_is_not_is_ignored_with_a_line() -> None:
    patch = bound("0,4", PLACED)
    assert patch.resources.cpuset_mems is None
    [line] = patch.ignored
    assert line.startswith(f"pod n/p: annotation {ANNOTATION_NUMA_BIND_RESULT}: ")
    assert "there is no NUMA node 4; expected some of 0-1" in line
    with pytest.raises(ValueError, match="numa_bind_result"):
        bound("left")
