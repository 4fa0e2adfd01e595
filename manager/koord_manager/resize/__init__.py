"""Right-sizing of running pods, by what is recommended for their workload."""
