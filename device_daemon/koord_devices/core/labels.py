"""Labels of the node about its accelerators, and the file of them for Node Feature Discovery."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from koord_model.keys import LABEL_GPU_DRIVER_VERSION, LABEL_GPU_MODEL, LABEL_GPU_VENDOR
from koord_model.times import rfc3339

from koord_devices.core.accelerator import Accelerator
from koord_devices.core.document import Expiry

PREFIX = "devices.koordinator.sh"
_NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


def labels(accelerators: Iterable[Accelerator], rdma: int) -> dict[str, str]:
    """How many there are of each vendor, model and driver; ``rdma`` is the count of RDMA devices.

    The node's ``gpu-vendor``, ``gpu-model`` and ``gpu-driver-version`` are Koordinator's, and there
    only where all accelerators agree.
    """
    by_vendor: dict[str, list[Accelerator]] = {}
    for one in accelerators:
        by_vendor.setdefault(one.vendor, []).append(one)
    found: dict[str, str] = {}
    for vendor, each in sorted(by_vendor.items()):
        found[f"{PREFIX}/{vendor}.count"] = str(len(each))
        found[f"{PREFIX}/{vendor}.healthy"] = str(sum(one.device.healthy for one in each))
        linked = sorted({link.type for one in each for link in one.links})
        found |= {f"{PREFIX}/{vendor}.link": "_".join(linked)} if linked else {}
    if rdma:
        found[f"{PREFIX}/rdma.count"] = str(rdma)
    everything = [one for each in by_vendor.values() for one in each]
    for name, values in (
        (LABEL_GPU_VENDOR, {one.vendor for one in everything}),
        (LABEL_GPU_MODEL, {one.model.removeprefix("NVIDIA ") for one in everything}),
        (LABEL_GPU_DRIVER_VERSION, {one.driver for one in everything}),
    ):
        value = _NO_LABEL.sub("-", values.pop())[:63].strip("-._") if len(values) == 1 else ""
        if value:
            found[name] = value
    return dict(sorted(found.items()))


def features(given: Mapping[str, str], expiry: Expiry | None) -> str:
    """A file of ``features.d``; Node Feature Discovery drops labels once they expire."""
    lines = [f"{name}={value}" for name, value in given.items()]
    if expiry is not None:
        lines = [
            f"# +expiry-time={rfc3339(expiry.at + expiry.seconds)}",
            f"{PREFIX}/timestamp={int(expiry.at)}",
            *lines,
        ]
    return "".join(f"{line}\n" for line in lines)
