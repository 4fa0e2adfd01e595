"""The paths of Malachite's HTTP API, and what answers them. Reads only, when asked."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial

from koord_service.error_text import describe_os_error
from koord_service.status import MakePage, Query, QueryError, StatusPage, json_page

from koordlet.http_api.malachite.core import bandwidth, cgroup, compute, devices, memory
from koordlet.http_api.malachite.core.counters import CounterGrowths
from koordlet.http_api.malachite.core.kernel_text import Document, NodeFileTree

_ROOT = "/api/v1"
_PARAMETER = "cgroup_user_path"
_PATH = re.compile(r"/?(?!\.\.?(?:/|$))[^/\0]+(?:/(?!\.\.?(?:/|$))[^/\0]+)*/?|/")
"""Of groups below the root alone."""
_FORGET_SECONDS = 60.0


class MalachitePages:
    """Pages of one node. Its first reading is at construction, so that rates are known soon."""

    def __init__(
        self,
        files: NodeFileTree,
        *,
        steady: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._steady = steady
        self._clock = clock
        self._growths = CounterGrowths()
        self._lock = threading.Lock()  # each page has a thread of its own
        self._forgotten_at = now = steady()
        if files.layout.version == 2:
            cgroup.prime(files, self._growths, now)
        try:
            compute.compute(files, self._growths, now)
            devices.network(files, self._growths, now)
        except OSError:
            pass  # the page itself says so to its readers

    def pages(self) -> Mapping[str, MakePage]:
        """All pages by path."""
        return {
            f"{_ROOT}/system/info": partial(self._page, self._info),
            f"{_ROOT}/system/compute": partial(self._page, self._compute),
            f"{_ROOT}/system/memory": partial(self._page, self._memory),
            f"{_ROOT}/system/io": partial(self._page, self._io),
            f"{_ROOT}/system/network": partial(self._page, self._network),
            f"{_ROOT}/realtime/freq": partial(self._page, self._freq),
            f"{_ROOT}/realtime/resctrl": partial(self._page, self._resctrl),
            f"{_ROOT}/cgroup/groups": partial(self._page, self._group),
        }

    def _page(self, make: Callable[[Query], Document], query: Query) -> StatusPage:
        try:
            with self._lock:
                data = make(query)
                self._forget()
        except OSError as error:
            raise QueryError(describe_os_error(error), 503) from None
        return json_page({"status": 0, "data": data})

    def _forget(self) -> None:
        now = self._steady()
        if now - self._forgotten_at > _FORGET_SECONDS:
            self._forgotten_at = now
            self._growths.forget(now)

    def _dated(self, data: Document | None) -> Document:
        if data is None:
            raise QueryError("usage is not known yet, since it was not asked for; in a second", 503)
        return {**data, "update_time": int(self._clock())}

    def _info(self, _: Query) -> Document:
        return self._dated(compute.info(self._files))

    def _compute(self, _: Query) -> Document:
        data = self._dated(compute.compute(self._files, self._growths, self._steady()))
        if "l3_mon" in data:
            data["l3_mon"] = self._dated(data["l3_mon"])
        return data

    def _memory(self, _: Query) -> Document:
        return self._dated(memory.memory(self._files))

    def _io(self, _: Query) -> Document:
        return self._dated(devices.disks(self._files))

    def _network(self, _: Query) -> Document:
        return self._dated(devices.network(self._files, self._growths, self._steady()))

    def _freq(self, _: Query) -> Document:
        clocks = devices.clocks(self._files)
        if clocks is None:
            raise QueryError("the kernel does not say at what clock CPUs run", 404)
        return {"sysfreq": self._dated({"cpu_freq": clocks})}

    def _resctrl(self, _: Query) -> Document:
        groups = bandwidth.groups(self._files, bandwidth.BANDWIDTH)
        if not groups:
            root = self._files.layout.resctrl_root
            raise QueryError(f"{root} has no counters of memory bandwidth", 404)
        return {"resctrl": self._dated({"group_mbm": groups})}

    def _group(self, query: Query) -> Document:
        path = query.values.get(_PARAMETER, "")
        if not _PATH.fullmatch(path):
            raise QueryError(f'parameter "{_PARAMETER}" is "{path}"; expected a group\'s path')
        if self._files.layout.version != 2:
            raise QueryError("groups are served of cgroup v2 alone, and this node has v1", 501)
        now = int(self._clock())
        try:
            found = cgroup.group(self._files, path, self._growths, self._steady(), now)
        except (FileNotFoundError, NotADirectoryError):
            raise QueryError(f"{path}: no such cgroup", 404) from None
        if found is None:
            raise QueryError(f"{path}: usage is not known yet; ask again in a second", 503)
        return found
