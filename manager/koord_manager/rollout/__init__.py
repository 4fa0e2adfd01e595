"""Rollouts of entries of ``pykoord-config``: followed, judged, and paused if they do harm."""
