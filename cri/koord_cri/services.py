"""CRI's services by their gRPC names."""

from __future__ import annotations

SERVICES = ("runtime.v1.RuntimeService", "runtime.v1alpha2.RuntimeService")
"""In the order in which a runtime is asked; the messages used here are the same in both."""
