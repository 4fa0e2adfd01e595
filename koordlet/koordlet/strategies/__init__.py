"""One strategy a file, found by its name; what each must have is said in ``deciding.contract``."""
