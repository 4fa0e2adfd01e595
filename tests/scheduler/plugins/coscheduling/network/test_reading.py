"""What a ClusterNetworkTopology, nodes' labels and a gang's annotation say."""

from __future__ import annotations

import json

import pytest
from koord_scheduler.plugins.coscheduling.network.cluster_topology import (
    NetworkLayer,
    network_layers,
    read_cluster_topology,
)
from koord_scheduler.plugins.coscheduling.network.gather_spec import (
    GatherNeeds,
    gather_needs,
    read_gather_spec,
)
from koord_scheduler.plugins.coscheduling.network.tree import NetworkNode, network_tree

LAYERS = (NetworkLayer("spine", ("s",)), NetworkLayer("rack", ("r", "old-r")))
NAMES = ("ClusterTopologyLayer", "spine", "rack", "NodeTopologyLayer")


def topology(*layers: tuple[str, str, str]) -> bytes:
    specs = [
        {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": keys.split()}
        for name, parent, keys in layers
    ]
    return json.dumps({"metadata": {"name": "x"}, "spec": {"networkTopologySpec": specs}}).encode()


def layers(raw: bytes) -> tuple[NetworkLayer, ...]:
    return network_layers(read_cluster_topology(raw).spec.network_topology_spec)


def test_layers_come_in_any_order() -> None:
    raw = topology(
        ("rack", "spine", "r old-r"), ("NodeTopologyLayer", "rack", ""), ("spine", "", "s")
    )
    assert layers(raw) == LAYERS


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([("rack", "", "r")], "NodeTopologyLayer"),
        ([("NodeTopologyLayer", "rack", "")], None),
        ([("NodeTopologyLayer", "rack", ""), ("spine", "", "s")], "spine"),
        ([("NodeTopologyLayer", "a", ""), ("a", "b", "a"), ("b", "a", "b"), ("c", "", "c")], "c"),
        ([("NodeTopologyLayer", "a", ""), ("a", "", "a"), ("a", "", "b")], "a"),
    ],
)
def test_layers_that_are_no_chain_are_named(
    given: list[tuple[str, str, str]], named: str | None
) -> None:
    if named is None:
        assert layers(topology(*given)) == ()
        return
    with pytest.raises(ValueError, match=f'"{named}"'):
        layers(topology(*given))


def test_nodes_are_in_the_domains_that_their_labels_name() -> None:
    labels = {
        "n1": {"s": "s2", "r": "r1"},
        "n2": {"s": "s1", "old-r": "r1"},
        "n3": {"s": "s1", "r": "r0", "old-r": "r9"},
        "n4": {"s": "s1"},
        "n5": {"r": "r1"},
        "n6": {"s": "s1", "r": "r1"},
    }
    nodes = [NetworkNode(row, *one) for row, one in enumerate(labels.items(), 1)]
    tree = network_tree(nodes, LAYERS)
    assert tree.layers == NAMES
    assert tree.rows.tolist() == [4, 3, 2, 6, 1]
    assert tree.names[1:] == (
        ["s1", "s2"],
        ["n4", "r0", "r1", "r1"],
        ["n4", "n3", "n2", "n6", "n1"],
    )
    assert [one.tolist() for one in tree.starts] == [
        [0, 5],
        [0, 4, 5],
        [0, 1, 2, 4, 5],
        [*range(6)],
    ]


def rules(*given: tuple[str, str, int]) -> str:
    found = [{"layer": a, "strategy": b, "podCountMultiple": n} for a, b, n in given]
    return json.dumps({"gatherStrategy": found})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", GatherNeeds(0, (1, 1, 1, 1))),
        (
            rules(("spine", "MustGather", 0), ("rack", "PreferGather", 4)),
            GatherNeeds(1, (1, 1, 4, 1)),
        ),
        (
            rules(("rack", "MustGather", 0), ("spine", "MustGather", 1)),
            GatherNeeds(2, (1, 1, 1, 1)),
        ),
        (rules(("pod", "MustGather", 2)), GatherNeeds(0, (1, 1, 1, 1), "pod")),
        (rules(("pod", "PreferGather", 2)), GatherNeeds(0, (1, 1, 1, 1))),
    ],
)
def test_the_lowest_layer_that_has_to_gather_counts(text: str, expected: GatherNeeds) -> None:
    assert gather_needs(read_gather_spec(text), NAMES) == expected


def test_an_annotation_that_is_not_valid_is_named() -> None:
    with pytest.raises(ValueError, match="network-topology-spec"):
        read_gather_spec("[")
