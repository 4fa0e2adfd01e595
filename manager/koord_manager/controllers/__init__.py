"""Watch, ask a reconciler, write: the IO around ``reconcilers``, run by the leader."""
