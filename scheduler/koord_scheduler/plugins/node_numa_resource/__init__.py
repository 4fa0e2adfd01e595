"""CPUs and NUMA nodes of pods, as Koordinator's NodeNUMAResource gives them. No IO.

Glossary:
    CPU         a logical CPU; several are the threads of a core (Koordinator: a PCPU).
    NUMA node   some cores with memory of their own; "node" alone is a node of the cluster.
    zone        what a NUMA node has of each resource, as in a NodeResourceTopology.
    binding     giving a pod CPUs of its own (a cpuset).
    share       a CPU can be in as many pods as it has shares; usually one.
    hint        NUMA nodes that could give a pod a resource, as a mask.
    provider    who gives hints: CPU and memory here, devices elsewhere.
    amplified   counted several times over, so that more can be given away than there is.
"""
