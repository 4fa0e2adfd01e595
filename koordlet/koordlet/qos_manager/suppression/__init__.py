"""How much CPU best-effort pods may use, and which CPUs."""
