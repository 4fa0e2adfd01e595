"""What `make release` made, in ``dist``; skipped with a reason where it is not there."""
