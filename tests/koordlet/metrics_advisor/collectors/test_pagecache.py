"""Memory with page cache, of the node, pods and containers."""

from __future__ import annotations

import pytest
from koordlet.metrics_advisor.collectors import pagecache

from tests.koordlet.metrics_advisor.collectors.used_node import (
    KIB,
    Group,
    Rounds,
    UsedNode,
    pod,
    values,
)


@pytest.mark.parametrize("version", [1, 2])
def test_files_count_too(version: int) -> None:
    node = UsedNode(version)
    node.put_memory(1000, 200, None)
    node.put("kubepods/podu1", Group(anonymous=100, unevictable=20, file=3000))
    node.put("kubepods/podu1/c1", Group(anonymous=50, file=2000))
    rounds = Rounds(pagecache.Collector(node.sources))
    of_pods = {
        ("pod_memory_usage_with_page_cache", "u1"): 3120.0,
        ("container_memory_usage_with_page_cache", "u1", "c1"): 2050.0,
    }
    found = rounds.look(pod())
    assert values(found) == {("node_memory_usage_with_page_cache",): 800 * KIB, **of_pods}
    assert found.partial == ()
    node.tree.texts["/proc/meminfo"] = "garbage"
    found = rounds.look(pod())
    assert (values(found), found.partial) == (of_pods, ('/proc/meminfo: no line "MemTotal:"',))
