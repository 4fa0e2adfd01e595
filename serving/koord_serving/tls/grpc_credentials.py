"""The pair that a manager's servers show, as gRPC takes it."""

from __future__ import annotations

from koord_service.grpc_core import grpc

from koord_serving.tls.server_tls import CertificatePair, ServerTls


def grpc_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """For gRPC servers, once there is a pair; clients need no certificate, they have tokens.

    New connections get the pair that is in force by then; those that are open stay.
    """
    used: CertificatePair | None = None

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """Nothing where none changed: of each the core makes a context anew. From any thread."""
        nonlocal used
        pair = tls.pair
        if pair is None or pair == used:
            return None
        used = pair
        return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificate)])

    # None means "as it is", which the stubs do not know.
    return grpc.dynamic_ssl_server_credentials(newer(), newer)  # type: ignore[arg-type]
