"""Places of nodes in the cluster's network, and gangs' nodes by these. No IO.

A *layer* (spine, block, rack, NVLink domain …) divides the nodes into *domains*; the cluster is the
first layer, single nodes are the last. A *leaf* is a node's place in the order of the tree.
"""
