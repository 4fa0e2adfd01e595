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
    """Count devices by vendor, model and driver; ``rdma`` is the number of RDMA devices.

    The node's ``gpu-vendor``, ``gpu-model`` and ``gpu-driver-version`` are Koordinator's, and there
    only where all accelerators agree.
    """
    by_vendor: dict[str, list[Accelerator]] = {}
    for accelerator in accelerators:
        by_vendor.setdefault(accelerator.vendor, []).append(accelerator)
    found: dict[str, str] = {}
    for vendor, each in sorted(by_vendor.items()):
        found[f"{PREFIX}/{vendor}.count"] = str(len(each))
        found[f"{PREFIX}/{vendor}.healthy"] = str(
            sum(accelerator.device.healthy for accelerator in each)
        )
        linked = sorted({link.type for accelerator in each for link in accelerator.links})
        found |= {f"{PREFIX}/{vendor}.link": "_".join(linked)} if linked else {}
    if rdma:
        found[f"{PREFIX}/rdma.count"] = str(rdma)
    everything = [accelerator for each in by_vendor.values() for accelerator in each]
    for name, values in (
        (LABEL_GPU_VENDOR, {accelerator.vendor for accelerator in everything}),
        (
            LABEL_GPU_MODEL,
            {accelerator.model.removeprefix("NVIDIA ") for accelerator in everything},
        ),
        (LABEL_GPU_DRIVER_VERSION, {accelerator.driver for accelerator in everything}),
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
