"""CPU suppression: how much CPU best-effort pods may use."""
