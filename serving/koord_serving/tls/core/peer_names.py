"""Names of a client in its certificate. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def common_names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The common names in a certificate as Python's ``ssl`` shows one that it verified."""
    return frozenset(
        value
        for parts in certificate.get("subject", ())
        for name, value in parts
        if name == "commonName"
    )
