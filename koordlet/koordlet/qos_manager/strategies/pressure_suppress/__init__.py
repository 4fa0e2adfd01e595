"""CPU suppression that follows the pressure latency-sensitive pods feel."""
