"""What koordlet shows: documents made of what it knows, their pages, the web page, metrics.

``node``, ``top``, ``curves``, ``predictions``, ``why`` and ``event`` are plain values and do no IO;
``journal`` reads the journal backwards; ``served`` says which page is where. ``prometheus``
and ``strategy_metrics`` are what is scraped.
"""
