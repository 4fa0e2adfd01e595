"""CPU that a container may use beyond its limit, and the conditions for it."""
