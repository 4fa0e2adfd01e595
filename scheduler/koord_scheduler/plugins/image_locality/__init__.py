"""Images that nodes have, and nodes scored by them. No IO."""
