"""Accelerators and RDMA devices: where they are, and what their drivers report of them. No IO."""
