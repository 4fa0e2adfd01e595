"""The standard services of a gRPC server: reflection and health."""

from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from koord_hooks.runner import load
from koord_hooks.stages import SERVICE
from koordlet.runtime_hooks.hook_metrics import HookMetrics
from koordlet.runtime_hooks.hook_server import HookServer


async def test_reflection_and_health(tmp_path: Path) -> None:
    server = HookServer(load(["batchresource"]), (), HookMetrics())
    await server.start(str(tmp_path / "k.sock"))
    try:
        async with grpc.aio.insecure_channel(f"unix:{tmp_path}/k.sock") as channel:
            asked = reflection_pb2.ServerReflectionRequest(list_services="")
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            answers = [one async for one in stub.ServerReflectionInfo(iter([asked]))]
            services = {one.name for one in answers[0].list_services_response.service}
            assert {SERVICE, "grpc.health.v1.Health"} <= services
            symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
            answers = [one async for one in stub.ServerReflectionInfo(iter([symbol]))]
            [file] = answers[0].file_descriptor_response.file_descriptor_proto
            assert b"PreRemoveRunPodSandboxHook" in file
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("", SERVICE):
                state = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert state.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        await server.stop(0)
