"""Stores samples and aggregates them; see ``MetricCache`` for the contract."""
