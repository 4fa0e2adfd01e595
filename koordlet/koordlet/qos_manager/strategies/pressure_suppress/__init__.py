"""CPU suppression that follows how latency-sensitive pods fare."""
