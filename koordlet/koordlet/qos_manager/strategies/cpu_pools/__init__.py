"""Named pools of CPUs: which pods share which CPUs, and how many."""
