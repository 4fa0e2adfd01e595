"""Two schedulers at a real API server with every feature in use, while leaders are killed and the
server pauses; all is recomputed from the API alone.

``make chaos-scheduler``, or ``python -m tests.chaos_scheduler --help``.
"""
