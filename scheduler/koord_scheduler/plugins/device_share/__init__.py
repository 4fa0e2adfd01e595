"""Devices of nodes: which a pod gets, and how much a placement of GPUs leaves usable. No IO.

Glossary:
    device      a GPU, an RDMA card or an FPGA, by type and number (``minor``).
    each        how much a pod needs of every one of its devices, by resource.
    state       what a node has and what its pods have of it; nodes of one state are alike.
    partition   a set of GPUs that can work together.
    template    amounts of a card that a pod can have, where it cannot have any.
    adaption    what a vendor's device plugin reads of a pod, to give it the devices chosen here.
    scope       GPUs that are near each other: those of a node, NUMA node, or PCIe switch.
    card        a GPU; its free capacity is in thousandths of a card.
    share       how much of each of its cards a pod requests, in thousandths; 1000 is a whole card.
    kind        a request, and how often pods request just that; a typical workload is many kinds.
    fragment    free capacity of a card that a kind cannot use: the card or the node has too little.
    value       what the free capacity of a node is worth, in thousandths of a card.
"""
