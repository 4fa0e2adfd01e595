"""Eviction plugins of others, by Katalyst's protocol: asked here, decided on by a strategy.

- ``host`` asks all plugins at once, each few seconds. It evicts nobody.
- ``pod_messages`` has the pods' bytes that plugins get.
- ``core`` is pure: requests, and what of the answers counts.

``strategies/eviction_plugins.py`` turns answers into claims like any other.
"""
