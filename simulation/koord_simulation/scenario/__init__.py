"""What is to be run: machine, pods, NodeSLOs, faults; and how a file says it. No IO."""
