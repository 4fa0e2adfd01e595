"""The node's knobs: what they are, who wants them how, and the one writer.

Glossary:
    knob       something the kernel lets us set, such as ``cpu.shares``: one row of
               the table in ``knobs``.
    place      where a knob is set: a cgroup, a process, a resctrl group, or the
               node itself.
    target     a knob at a place.
    wish       what one owner wants of one target, with the reason.
    owner      who wishes: the hooks, a strategy, the kubelet.
    executor   the one writer: arbitrates wishes, orders writes, verifies them,
               journals them, and can put back what it found.
    double     a fake cgroupfs or resctrl for tests (``tests/support``): it refuses
               what the kernel refuses.
"""
