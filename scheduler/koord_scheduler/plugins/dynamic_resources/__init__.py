"""Dynamic resource allocation: ResourceClaims, and the devices that they get. No IO.

Glossary:
    claim       a ResourceClaim; its key is namespace/name.
    slice       a ResourceSlice: some of the devices of a pool, and the nodes that can use them.
    pool        all slices of one driver and pool name, of the newest generation.
    counters    amounts that devices of a pool share, so that not all can be taken (partitions).
    capacity    amounts of one device; with ``allowMultipleAllocations`` claims divide it.
    in flight   allocated here, and not yet written to the API.
"""
