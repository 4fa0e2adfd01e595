"""What tests and benchmarks share: runtimes, CRI clients, cgroup readers."""
