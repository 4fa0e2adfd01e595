"""The web page's own files; ``koord_service.web`` has those that it shares."""
