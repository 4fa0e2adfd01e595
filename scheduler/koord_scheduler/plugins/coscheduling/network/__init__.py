"""Where nodes are in the cluster's network, and which of them a gang gets by that. No IO.

A *layer* (spine, block, rack, NVLink domain …) divides the nodes into *domains*; the cluster is the
first layer, single nodes are the last. A *leaf* is a node's place in the order of the tree.
"""
