"""A node out of the kernel's texts, which the vectors of Malachite were recorded with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_service.status import Query
from koordlet.http_api.malachite.core.kernel_text import NodeFileTree
from koordlet.http_api.malachite.pages import MalachitePages


class RecordedNode:
    """Its files, below ``root``; ``at`` is its time in seconds."""

    def __init__(self, root: Path, texts: Mapping[str, str], version: int = 2) -> None:
        self._root = str(root)
        self.at = 0.0
        self.put(texts)
        layout = Layout(
            version,
            Driver.CGROUPFS,
            f"{root}/sys/fs/cgroup",
            f"{root}/sys/fs/resctrl",
            f"{root}/proc",
        )
        files = NodeFileTree(KernelFilesystem(), layout, f"{root}/sys")
        made = MalachitePages(files, steady=lambda: self.at, clock=lambda: 1e9 + self.at)
        self.pages = made.pages()

    def put(self, texts: Mapping[str, str]) -> None:
        """Give files these texts."""
        for path, text in texts.items():
            file = Path(self._root + path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def get(self, path: str, **values: str) -> Any:
        """The data of a page; raises ``QueryError`` as it does."""
        page = self.pages[f"/api/v1/{path}"](Query(values))
        answer = json.loads(page.body.decode().replace(self._root, ""))
        assert answer["status"] == 0
        return answer["data"]
