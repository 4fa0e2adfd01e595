"""A scenario: machine, pods, NodeSLOs, faults; and its file format. No IO."""
