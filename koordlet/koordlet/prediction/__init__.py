"""The client of ``koord_prediction``: learns from the metric cache, and keeps checkpoints."""
