"""A test double of cgroupfs, versions 1 and 2, in memory; see ``FakeCgroupfs``.

``numerals`` reads and prints numbers, ``group`` is what rules work on, ``cpu``,
``cpuset``, ``memory``, ``disks``, ``costs``, ``membership`` and ``small`` are the rules,
``files`` says which group has which, ``filesystem`` is the tree, ``invariants``
what must always hold.
"""

from tests.support.fake_cgroupfs.filesystem import FakeCgroupfs

__all__ = ["FakeCgroupfs"]
