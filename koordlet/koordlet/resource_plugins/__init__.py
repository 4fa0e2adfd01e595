"""Resource plugins of Katalyst: asked while a pod starts, kept over a restart.

- A *resource plugin* serves ``resourceplugin.v1alpha1.ResourcePlugin`` for one resource: "cpu".
- An *allocation* is its answer for one container: limits, environment, annotations.
- A *hint* is a set of NUMA nodes that it could allocate from.
"""
