"""The one writer of the node's knobs: it writes, verifies, journals, and can roll back."""
