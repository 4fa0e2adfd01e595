"""Fewer examples for a property whose examples are expensive, in every profile alike."""

from hypothesis import settings


def fewer(times: int) -> settings:
    """A fraction of the profile's examples: ``@fewer(3)`` instead of a number."""
    assert settings.default is not None
    return settings(max_examples=max(2, settings.default.max_examples // times))
