import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS, Knob
from koord_host.planning.desired_values import Target
from koord_host.resource_executor.baselines import BaselineValue
from koord_host.resource_executor.place_identity import identity, is_same, is_there

LAYOUT = Layout(2, Driver.CGROUPFS)
SHARES, SCORE, SYSCTL = (KNOBS[name] for name in ("cpu.shares", "oom_score_adj", "sysctl"))


INODES = {"/sys/fs/cgroup/g": (1 << 63) + 5}


class Files:
    """Directories with inodes, and one process with a name that is a trap."""

    def read(self, path: str) -> str:
        if path != "/proc/7/stat":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return "7 (a) b) c) S 1 " + " ".join(str(number) for number in range(5, 60))

    def exists(self, path: str) -> bool:
        return path in INODES or path == "/proc/7"

    def entries(self, path: str) -> list[str]:
        return []

    def identity(self, path: str) -> int:
        if path == "/sys/fs/cgroup/denied":
            raise PermissionError(errno.EACCES, "Permission denied")
        if path not in INODES:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return INODES[path]


@pytest.mark.parametrize(
    ("knob", "place", "found"),
    [
        (SHARES, "g", 5),
        (SCORE, "7", 22),  # proc(5): starttime is field 22
        (SYSCTL, "vm.x", 0),
        (SHARES, "h", None),
        (SCORE, "8", None),
    ],
)
def test_identities(knob: Knob, place: str, found: int | None) -> None:
    assert is_there(Files(), LAYOUT, knob, place) is (found is not None)
    if found is None:
        with pytest.raises(FileNotFoundError):
            identity(Files(), LAYOUT, knob, place)
    else:
        assert identity(Files(), LAYOUT, knob, place) == found


@pytest.mark.parametrize(
    ("place", "knob", "known", "same"),
    [
        ("g", "cpu.shares", 5, True),
        ("g", "cpu.shares", 6, False),
        ("h", "cpu.shares", 5, False),
        ("denied", "cpu.shares", 5, True),  # who cannot look does not forget
        ("g", "cpu.sheep", 5, False),
    ],
)
def test_whether_it_is_the_same(place: str, knob: str, known: int, same: bool) -> None:
    baseline = BaselineValue(Target(place, knob), known, "1", 0.0)
    assert is_same(Files(), LAYOUT, baseline) is same
