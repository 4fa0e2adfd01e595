"""Names in the directory where hook servers register, for all who write or read there."""

DIRECTORY = "/etc/runtime/hookserver.d"
REGISTERED = ".json"
"""What the name of a server's registration ends in."""
REMOVED = ".removed"
"""What the name of a file ends in that says: this server is deregistered."""
