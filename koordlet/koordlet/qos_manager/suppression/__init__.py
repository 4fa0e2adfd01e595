"""Amount and choice of best-effort pods' CPUs."""
