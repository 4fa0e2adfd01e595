"""A test double of resctrl in memory; see ``FakeResctrl``.

``resources`` is what a machine can share out, ``schemata`` the text in which groups
ask for it, ``group`` what a group has, ``filesystem`` the tree.
"""

from tests.support.fake_resctrl.filesystem import FakeResctrl

__all__ = ["FakeResctrl"]
