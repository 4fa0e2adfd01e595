"""Katalyst's reporter plugins: what they say of the node goes into its CustomNodeResource.

- ``host`` asks them, and follows their streams.
- ``core`` decides what of it counts: ``contents`` (fields and their types), ``merging`` (ours and
  theirs), ``admission`` (what the API server accepts).
- ``export`` puts it together for the object's applier.
"""
