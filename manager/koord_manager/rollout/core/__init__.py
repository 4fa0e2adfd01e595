"""State, comparison and judgement of rollouts. No IO."""
