"""Parts of `make mutants`: faults, trials in forks, and results of earlier ones."""
