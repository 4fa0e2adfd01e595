"""What a machine can share out: caches by masks, memory bandwidth by a number."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.fake_cgroupfs.numerals import unsigned

#: What a group without a limit reads under the ``mba_MBps`` mount option.
UNLIMITED_MBPS = 2**32 - 1


class Refused(Exception):
    """A value the hardware would not take; the text goes to ``info/last_cmd_status``."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache whose ways are shared out by mask."""

    name: str
    domains: tuple[int, ...]
    full: int
    min_bits: int
    sparse: bool
    closids: int

    @property
    def default(self) -> int:
        return self.full

    def parse(self, text: str) -> int:
        """A mask in hexadecimal, as the kernel checks it."""
        try:
            mask = _hexadecimal(text)
        except (OSError, ValueError):
            raise Refused(f"Non-hex character in the mask {text}\n") from None
        if (self.min_bits > 0 and mask == 0) or mask > self.full:
            raise Refused("Mask out of range\n")
        run = first_run(mask)
        if not self.sparse and mask & ~run:
            raise Refused(f"The mask {mask:x} has non-consecutive 1-bits\n")
        if run.bit_count() < self.min_bits:
            raise Refused(f"Need at least {self.min_bits} bits in the mask\n")
        return mask

    def show(self, value: int, width: int) -> str:
        return f"{value:0{width}x}"

    def info(self) -> dict[str, str]:
        return {
            "num_closids": f"{self.closids}\n",
            "cbm_mask": f"{self.full:x}\n",
            "min_cbm_bits": f"{self.min_bits}\n",
            "shareable_bits": "0\n",
            "sparse_masks": f"{int(self.sparse)}\n",
        }


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Memory bandwidth: percent (Intel), eighths of GB/s (AMD), or MB/s by software."""

    name: str
    domains: tuple[int, ...]
    kind: str
    closids: int
    maximum: int
    minimum: int
    step: int

    @property
    def default(self) -> int:
        return UNLIMITED_MBPS if self.kind == "mbps" else self.maximum

    def parse(self, text: str) -> int:
        """A number within bounds, rounded up to the step the hardware has."""
        try:
            value = _decimal(text)
        except (OSError, ValueError):
            raise Refused(f"Invalid MB value {text}\n") from None
        if self.kind == "mbps":
            return value
        if not self.minimum <= value <= self.maximum:
            bounds = f"[{self.minimum},{self.maximum}]"
            raise Refused(f"MB value {value} out of range {bounds}\n")
        return -(-value // self.step) * self.step

    def show(self, value: int, width: int) -> str:
        return f"{value:{width or 1}}"

    def info(self) -> dict[str, str]:
        files = {
            "num_closids": f"{self.closids}\n",
            "min_bandwidth": f"{self.minimum}\n",
            "bandwidth_gran": f"{self.step}\n",
            "delay_linear": f"{int(self.kind != 'amd')}\n",
        }
        if self.kind != "amd":
            files["thread_throttle_mode"] = "max\n"
        return files


Resource = Cache | Bandwidth


def first_run(mask: int) -> int:
    """The lowest run of consecutive bits."""
    low = mask & -mask
    return mask & ~(mask + low)


def _hexadecimal(text: str) -> int:
    digits = text.removeprefix("+")
    if not digits.lower().startswith("0x"):
        digits = f"0x{digits}"
    return unsigned(digits)


def _decimal(text: str) -> int:
    """The kernel reads these in base 10 alone: a leading 0 says nothing."""
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text)
    return unsigned(digits.lstrip("0") or "0", UNLIMITED_MBPS)


def bandwidth(kind: str, domains: tuple[int, ...], closids: int) -> Bandwidth:
    """Memory bandwidth as machines of this kind have it."""
    if kind == "amd":
        return Bandwidth("MB", domains, kind, closids, maximum=2048, minimum=0, step=1)
    if kind in ("intel", "mbps"):
        return Bandwidth("MB", domains, kind, closids, maximum=100, minimum=10, step=10)
    raise ValueError(f"mb is {kind!r}; expected 'intel', 'amd', 'mbps' or None")
