"""The node's knobs: what they are, which values owners want, and the one writer.

Glossary:
    knob       something the kernel lets us set, such as ``cpu.shares``: one row of
               the table in ``knobs.table``.
    place      where a knob is set: a cgroup, a process, a resctrl group, or the
               node itself.
    target     a knob at a place.
    desired    the value that one owner wants for one target, with the reason.
    owner      who wants values: the hooks, a strategy, an operator.
    executor   the one writer: arbitrates values, orders writes, verifies them,
               journals them, and can put back what it found.
    double     a fake cgroupfs or resctrl for tests (``tests/support``): it refuses
               what the kernel refuses.
"""
