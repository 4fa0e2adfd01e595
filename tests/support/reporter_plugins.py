"""Contents of reporter plugins, and plugins on real sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from koord_proto.plugin_registration_pb2 import PluginInfo
from koord_proto.reporter_plugin_pb2 import (
    FieldType,
    GetReportContentResponse,
    GroupVersionKind,
    ReportContent,
    ReportField,
)

from tests.support.plugin_server import PluginServer
from tests.support.processes import PATIENCE

SERVICE = "reporterplugin.v1alpha1.ReporterPlugin"
CNR = GroupVersionKind(
    group="node.katalyst.kubewharf.io", version="v1alpha1", kind="CustomNodeResource"
)


def content(*fields: tuple[Any, str, Any]) -> GetReportContentResponse:
    """Fields by type, Go's name and value; bytes are sent as they are."""
    return GetReportContentResponse(
        content=[
            ReportContent(
                groupVersionKind=CNR,
                field=[
                    ReportField(
                        fieldType=FieldType.Value(part) if isinstance(part, str) else part,
                        fieldName=name,
                        value=value if isinstance(value, bytes) else json.dumps(value).encode(),
                    )
                    for part, name, value in fields
                ],
            )
        ]
    )


def labelled(value: str) -> GetReportContentResponse:
    return content(("Metadata", "Labels", {"a": value}))


@contextmanager
def served(directory: Path, **plugins: ReporterPlugin) -> Iterator[None]:
    """Serve plugins, by name, beside a test without an event loop."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for name, plugin in plugins.items():
                await stack.enter_async_context(plugin.server(directory / f"{name}.sock"))
            ready.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(task))
    thread.start()
    assert ready.wait(PATIENCE)
    yield
    loop.call_soon_threadsafe(task.cancel)
    thread.join()
    loop.close()


class ReporterPlugin:
    """Its answer, and what it sends by itself; ``asked`` counts."""

    def __init__(
        self,
        answer: GetReportContentResponse | None = None,
        sends: Callable[[], AsyncIterator[Message]] | None = None,
    ) -> None:
        self.answer = answer
        self.sends = sends
        self.asked = 0

    def server(self, path: Path) -> PluginServer:
        info = PluginInfo(type="ReporterPlugin", name=path.stem, supported_versions=["v1alpha1"])
        methods = {} if self.answer is None else {"GetReportContent": self._answer}
        streams = {} if self.sends is None else {"ListAndWatchReportContent": self.sends}
        return PluginServer(path, info, SERVICE, methods, streams)

    async def _answer(self, _: bytes) -> Message:
        self.asked += 1
        assert self.answer is not None
        return self.answer
