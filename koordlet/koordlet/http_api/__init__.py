"""The HTTP API: documents made of what koordlet knows, the web page, metrics.

``routes`` maps paths to ``documents``, which are plain values and do no IO; ``journal`` reads
the journal backwards; ``prometheus`` and ``strategy_metrics`` are scraped.
"""
