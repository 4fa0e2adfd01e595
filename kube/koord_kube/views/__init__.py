"""Typed parts of objects, decoded in one pass: what several readers need of them. No IO."""
