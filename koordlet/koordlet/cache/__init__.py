"""What koordlet remembers of its measurements; see ``MetricCache`` for what is asked of it."""
