"""From desired values to ordered writes: who wants what, who wins, what is tried again. No IO."""
