"""What `make mutants` consists of: faults, trials in forks, and what is known of earlier ones."""
