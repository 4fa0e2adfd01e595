"""ClusterColocationProfiles: read, matched against pods, applied. No IO.

- **document**: a profile as its object says it, and what of that cannot be used.
- **matching**: which profiles are for a pod or reservation, and which have their chance.
- **applying**: the object with a profile applied; **strategic_merge** is for its ``patch``.
"""
