"""ClusterNetworkTopology: which labels of nodes say where they are in the network. No IO."""

from __future__ import annotations

from koord_kube.definitions.definition import definition
from koord_kube.definitions.schema import Schema, list_of, object_of, text, whole
from koord_kube.protocol.resources import CLUSTER_NETWORK_TOPOLOGIES


def _domain(about: str) -> Schema:
    return object_of(
        about,
        "topologyLayer",
        "topologyName",
        topologyLayer=text("Its layer."),
        topologyName=text("Its name, of the cluster an empty one."),
    )


CLUSTER_NETWORK_TOPOLOGY = definition(
    CLUSTER_NETWORK_TOPOLOGIES,
    "The layers of the network; the object called default counts.",
    {
        "spec": object_of(
            "The layers.",
            "networkTopologySpec",
            networkTopologySpec=list_of(
                "In any order.",
                object_of(
                    "A layer.",
                    "topologyLayer",
                    topologyLayer=text("Its name; NodeTopologyLayer is the lowest."),
                    parentTopologyLayer=text("The layer above it."),
                    labelKey=list_of(
                        "Labels of nodes; the first that a node has names its domain.", text()
                    ),
                ),
            ),
        ),
        "status": object_of(
            "What there is.",
            detailStatus=list_of(
                "All domains, without nodes.",
                object_of(
                    "A domain.",
                    "topologyInfo",
                    "nodeNum",
                    topologyInfo=_domain("Which one."),
                    parentTopologyInfo=_domain("The domain that it is a part of."),
                    childTopologyLayer=text("The layer of its parts."),
                    childTopologyNames=list_of("The names of its parts.", text()),
                    nodeNum=whole("How many nodes it has.", bits=32),
                ),
            ),
        ),
    },
)
