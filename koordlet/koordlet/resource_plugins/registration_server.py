"""The registration of resource plugins, as the kubelet of Katalyst and its agent serve it.

Only root may register: whoever does decides on the limits and the environment of containers.
Other files of the directory stay as they are: plugins listen there.
"""

from __future__ import annotations

from collections.abc import Callable

from koord_proto import resource_plugin_pb2 as pb
from koord_service.grpc_core import grpc
from koord_service.grpc_sockets import listen
from koord_service.logs import get_log

_MODE = 0o600
_OPTIONS = (("grpc.max_receive_message_length", 64 << 10),)
_SERVICE = pb.DESCRIPTOR.services_by_name["Registration"].full_name

_Context = grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty]

_log = get_log("koordlet.resources")


class RegistrationServer:
    """Serves registrations at ``path``; ``register`` takes one, or raises ``ValueError``."""

    def __init__(self, path: str, register: Callable[[pb.RegisterRequest], None]) -> None:
        self._path = path
        self._take = register
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Serve from now on, if that has not begun.

        Raises:
            OSError: the socket is in use, or cannot be made.
            ValueError: the path is too long for a socket.
        """
        if self._server is not None:
            return
        server = grpc.aio.server(options=_OPTIONS)
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=pb.RegisterRequest.FromString,
            response_serializer=pb.Empty.SerializeToString,
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {"Register": handler}),)
        )
        listen(server, self._path, _MODE)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Serve no more."""
        if self._server is not None:
            await self._server.stop(0)

    async def _register(self, request: pb.RegisterRequest, context: _Context) -> pb.Empty:
        try:
            self._take(request)
        except ValueError as error:
            _log.warning("resource plugin not registered", reason=str(error))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return pb.Empty()
