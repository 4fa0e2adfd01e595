"""pykoord's own hook plugins: one file each, found by file name."""
