"""gRPC servers on unix sockets that only some may use."""

from __future__ import annotations

import os
from urllib.parse import quote

from koord_service.grpc_core import grpc
from koord_service.sockets import listen_unix


def listen(server: grpc.aio.Server, path: str, mode: int) -> None:
    """Have a server listen on a unix socket of this mode; a stale one is replaced.

    Raises:
        OSError: the socket is in use, or cannot be made.
        ValueError: the path is too long for a socket.
    """
    # grpc takes no listening socket over and would replace a live one, so the
    # path is claimed the careful way first, and then left to grpc.
    listen_unix(path, mode=mode).close()
    before = os.umask(0o777 & ~mode)
    try:
        server.add_insecure_port(f"unix:{quote(path)}")
    except RuntimeError as error:
        raise OSError(f"{path}: cannot listen: {error}") from None
    finally:
        os.umask(before)
