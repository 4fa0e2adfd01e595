"""Statistics of DAMON's schemes, where DAMON runs with one that only monitors.

The kernel's interface is Documentation/admin-guide/mm/damon/usage.rst. Nothing is
written here, so a scheme can be read only if the kernel keeps its files up to date by
itself (``refresh_ms``, Linux 6.17) and counts its snapshots (``nr_snapshots``, newer).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from koord_host.kernel_files.interface import FileTree

_WANTED = {
    "action": "stat",
    "access_pattern/nr_accesses/max": "0",
    "quotas/ms": "0",
    "quotas/bytes": "0",
}
"""The action that only counts idle memory, over all of the memory."""


class SchemeStats(NamedTuple):
    """A scheme, and what it has added up since it runs: bytes, over so many snapshots."""

    scheme: str
    size: int
    snapshots: int


def idle_page_cache(tree: FileTree, sys_root: str = "/sys") -> list[SchemeStats]:
    """Return schemes' statistics of idle memory without anonymous pages: one a context.

    Empty where there are none that can be read.
    """
    root = f"{sys_root}/kernel/mm/damon/admin/kdamonds"
    found = []
    for kdamond in _below(tree, root):
        if _text(tree, f"{kdamond}/state") != "on" or _number(tree, f"{kdamond}/refresh_ms") <= 0:
            continue
        for context in _below(tree, f"{kdamond}/contexts"):
            if _text(tree, f"{context}/operations") == "paddr":
                schemes = (
                    scheme for scheme in _below(tree, f"{context}/schemes") if _fits(tree, scheme)
                )
                found += [seen for scheme in schemes if (seen := _seen(tree, scheme))][:1]
    return found


def _fits(tree: FileTree, scheme: str) -> bool:
    if any(_text(tree, f"{scheme}/{file}") != text for file, text in _WANTED.items()):
        return False
    return any(
        _text(tree, f"{filter_}/type") == "anon"
        # Either lets through what is not anonymous, or stops what is.
        and _text(tree, f"{filter_}/matching") != _text(tree, f"{filter_}/allow")
        for folder in ("ops_filters", "filters")
        for filter_ in _below(tree, f"{scheme}/{folder}")
    )


def _seen(tree: FileTree, scheme: str) -> SchemeStats | None:
    """Its sums; ``None`` where the kernel does not count, or just then counts on."""
    snapshots = _number(tree, f"{scheme}/stats/nr_snapshots")
    size = _number(tree, f"{scheme}/stats/sz_ops_filter_passed")
    again = _number(tree, f"{scheme}/stats/nr_snapshots")
    if snapshots < 0 or size < 0 or snapshots != again:
        return None
    return SchemeStats(scheme, size, snapshots)


def _below(tree: FileTree, directory: str) -> Iterator[str]:
    try:
        names = tree.entries(directory)
    except OSError:
        return iter(())
    return (f"{directory}/{name}" for name in names if name.isdigit())


def _number(tree: FileTree, path: str) -> int:
    text = _text(tree, path)
    return int(text) if text.isascii() and text.isdigit() else -1


def _text(tree: FileTree, path: str) -> str:
    try:
        return tree.read(path).strip()
    except OSError:
        return ""
