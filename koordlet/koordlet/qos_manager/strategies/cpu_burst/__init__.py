"""When a container may use more CPU than its limit, and how much."""
