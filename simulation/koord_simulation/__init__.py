"""A simulated node, to run strategies on in accelerated time.

- **workload**: a pod, what it asks for, and the curve of what it would use.
- **machine**: the node's CPUs, memory and cache.
- **node**: what a second of demand comes to: CPU shared, memory found, latency.
- **cgroups**: the knobs, with the kernel's rules and what is wished of them.
- **observing**: what collectors would have measured of it, less what a fault hides.
- **run**: second by second, the node and the strategies on it; **report**: what came of it.

No IO but in ``main``, ``files`` and ``plot``.
"""
