"""Names in the directory where hook servers register, for all who write or read there."""

DIRECTORY = "/etc/runtime/hookserver.d"
REGISTERED = ".json"
"""Suffix of the file that registers a hook server."""
REMOVED = ".removed"
"""Suffix of the file that says that a hook server is deregistered."""
