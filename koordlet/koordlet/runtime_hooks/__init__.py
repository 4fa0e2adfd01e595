"""Hook server, NRI plugin, and the reconciler for pods that already run."""
