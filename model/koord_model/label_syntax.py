"""How Kubernetes' label keys and values are written. No IO."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_LONGEST_SUBDOMAIN = 253

_LONGEST_LABEL = 63

KEY = "a label key such as example.com/name"
VALUE = "a label value: up to 63 letters, digits, -, _ and ."


def is_label_key(text: str) -> bool:
    """Whether it is a name, with or without a DNS subdomain before it."""
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether it is a name or empty."""
    return not text or _NAME.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether a namespace can be called so."""
    return len(text) <= _LONGEST_LABEL and re.fullmatch(_DNS_LABEL, text) is not None
