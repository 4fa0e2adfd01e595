"""DrainNode and DrainNodeGroup: nodes are emptied, each pod with a place that was proved first."""
