"""Results of `make release`, in ``dist``; skipped with a reason where it is not there."""
