"""Syntax of Kubernetes' names, and of labels' keys and values. No IO."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_LONGEST_SUBDOMAIN = 253
_NAMESPACE = re.compile(_DNS_LABEL)
_LONGEST_NAMESPACE = 63

KEY = "a label key such as example.com/name"
VALUE = "a label value: up to 63 letters, digits, -, _ and ."
OBJECT = "an object's name: up to 253 lower-case letters, digits, - and ."
NAMESPACE = "a namespace: up to 63 lower-case letters, digits and -"


def is_label_key(text: str) -> bool:
    """True if it is a name, with or without a DNS subdomain before it."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_object_name(prefix):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """True if it is a name or empty."""
    return not text or _NAME.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """True if it is a DNS subdomain, as the names of most kinds of objects are."""
    return len(text) <= _LONGEST_SUBDOMAIN and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """True if a namespace can have this name: a DNS label."""
    return len(text) <= _LONGEST_NAMESPACE and _NAMESPACE.fullmatch(text) is not None
