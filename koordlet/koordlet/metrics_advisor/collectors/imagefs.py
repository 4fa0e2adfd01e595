"""Space and inodes of the file system of images, as the kubelet's imagefs.

Samples: ``node_imagefs_{available,capacity}`` in bytes, and ``node_imagefs_inodes{,_free}``, of
the file system that ``--image-fs-dir`` is on. Source: statvfs(3), which may hang on a file system
of a server that is away. A file system without inodes (btrfs) has no samples of them.
"""

from __future__ import annotations

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

INTERVAL = "psi_collector_interval"
ENABLED_BY: tuple[str, ...] = ("ThresholdEvict",)
BLOCKING = True


class Collector:
    """Asks one file system."""

    def __init__(self, sources: CollectorSources) -> None:
        self._read = sources.filesystem
        self._path = sources.image_fs_dir

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        if self._read is None:
            raise UnavailableError("this program asks no file system")
        try:
            found = self._read(self._path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UnavailableError(f"{self._path}: {reason} (--image-fs-dir)") from None
        values = [("available", found.available), ("capacity", found.capacity)]
        if found.inodes:
            values += [("inodes_free", found.inodes_free), ("inodes", found.inodes)]
        return Samples([Sample(Series(f"node_imagefs_{name}"), float(n)) for name, n in values])
