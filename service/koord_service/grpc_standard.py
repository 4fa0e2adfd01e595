"""The standard services that gRPC servers offer, loaded after gRPC's environment is set."""

# ruff: noqa: I001 - the order is the point

from __future__ import annotations

import koord_service.grpc_core  # noqa: F401

from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_reflection.v1alpha import reflection

__all__ = ["HealthCheckResponse", "health", "health_pb2_grpc", "reflection"]
