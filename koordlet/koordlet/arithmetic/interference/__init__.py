"""Which pods suffer, and who may be the cause."""
