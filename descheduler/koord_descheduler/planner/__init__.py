"""Plans of moves: a snapshot of the cluster, ranked moves with their arithmetic. No IO."""
