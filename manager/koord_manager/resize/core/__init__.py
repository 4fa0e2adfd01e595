"""Resources that a pod's containers should have, and when a resize is undone. No IO."""
