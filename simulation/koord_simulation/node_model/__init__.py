"""The node, second by second: machine, workloads, knobs, memory, CPU, sensors. No IO."""
