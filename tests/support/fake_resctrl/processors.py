"""Which processors belong to a group, whatever task runs on them."""

from __future__ import annotations

import errno

from tests.support.fake_cgroupfs.numerals import mask_of
from tests.support.fake_resctrl.group import Group
from tests.support.fake_resctrl.resources import Refused


class BadList(Exception):
    """Text that names no processors; ``code`` is the errno."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def mask_text(mask: int, width: int) -> str:
    """A mask of CPUs as the kernel prints it: hexadecimal, in words of 32 bits."""
    words, left = [], width
    while left > 0:
        digits = (min(left, 32) + 3) // 4
        words.append(f"{mask & 0xFFFFFFFF:0{digits}x}")
        mask >>= 32
        left -= 32
    return ",".join(reversed(words))


def mask_value(text: str, width: int) -> int:
    """What ``mask_text`` printed."""
    value = 0
    for word in text.strip().split(","):
        if not 1 <= len(word) <= 8 or not all(digit in "0123456789abcdefABCDEF" for digit in word):
            raise BadList(errno.EINVAL)
        value = value << 32 | int(word, 16)
    if value >> width:
        raise BadList(errno.EOVERFLOW)
    return value


def parse(file: str, text: str, online: int) -> int:
    """What is written into ``cpus`` or ``cpus_list``, as a mask."""
    width = online.bit_length()
    try:
        mask = mask_of(text, width) if file == "cpus_list" else mask_value(text, width)
    except OSError as error:
        raise BadList(error.errno or errno.EINVAL) from None
    if mask & ~online:
        raise Refused("Can only assign online CPUs\n")
    return mask


def give(group: Group, mask: int, top: Group, groups: list[Group]) -> None:
    """Give a group these processors; those it loses go to the root group."""
    if group.control is not None:
        if mask & ~group.control.cpus:
            raise Refused("Can only add CPUs to mongroup that belong to parent\n")
        for other in group.control.monitors.values():
            other.cpus &= ~mask
        group.cpus = mask
        return
    if group is top and group.cpus & ~mask:
        raise Refused("Can't drop CPUs from default group\n")
    top.cpus |= group.cpus & ~mask
    for other in groups:
        other.cpus &= ~mask
    for monitor in group.monitors.values():
        monitor.cpus = 0
    group.cpus = mask
