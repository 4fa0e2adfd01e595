"""A simulated node, to run strategies on in accelerated time.

- **workload**: a pod, its requests, and the curve of its demand.
- **machine**: the node's CPUs, memory and cache.
- **node**: what a second of demand comes to: CPU shared, memory found, latency.
- **cgroups**: the knobs, with the kernel's rules and their desired values.
- **observing**: what collectors would have measured of it, less what a fault hides.
- **run**: second by second, the node and the strategies on it; **report**: what came of it.

No IO but in ``main``, ``files`` and ``plot``.
"""
