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

NODE = ("node_memory_usage_with_page_cache",)
POD = ("pod_memory_usage_with_page_cache", "u1")
CONTAINER = ("container_memory_usage_with_page_cache", "u1", "c1")


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    made = UsedNode(request.param)
    made.put_memory(1000, 200, 600)
    made.put("kubepods/podu1", Group(anonymous=100, unevictable=20, file=3000))
    made.put("kubepods/podu1/c1", Group(anonymous=50, file=2000))
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(pagecache.Collector(node.sources))


def test_files_count_too(rounds: Rounds) -> None:
    found = rounds.look(pod())
    assert values(found) == {NODE: 800 * KIB, POD: 3120.0, CONTAINER: 2050.0}
    assert found.partial == ()


def test_it_does_not_need_what_is_available(node: UsedNode, rounds: Rounds) -> None:
    node.put_memory(1000, 200, None)
    assert values(rounds.look()) == {NODE: 800 * KIB}


def test_vanished_and_unreadable_groups(node: UsedNode, rounds: Rounds) -> None:
    node.remove("kubepods/podu1/c1")
    file = node.path("kubepods/podu1", "memory", "memory.stat")
    node.tree.texts[file] = "garbage"
    found = rounds.look(pod())
    assert values(found) == {NODE: 800 * KIB}
    [line] = found.partial
    assert line.startswith(f"{file}: no line ")
    node.tree.texts["/proc/meminfo"] = "garbage"
    found = rounds.look()
    assert (found.samples, found.partial) == ([], ('/proc/meminfo: no line "MemTotal:"',))


def test_it_is_off_unless_asked_for() -> None:
    assert pagecache.ENABLED_BY == ("enable_pagecache_collector",)
