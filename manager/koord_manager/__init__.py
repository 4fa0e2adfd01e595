"""What runs once per cluster.

Glossary:
    receiver  takes what nodes report straight to the leader, and keeps the latest of each.
"""
