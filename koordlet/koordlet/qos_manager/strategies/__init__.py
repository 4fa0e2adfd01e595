"""One strategy per file or folder, found by its name; the contract is in ``core.strategy``."""
