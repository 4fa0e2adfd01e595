"""Which disks are meant."""
