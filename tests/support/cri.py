"""The kubelet's side of CRI; see koord_demo.cri_client and koord_demo.pods."""

from koord_demo import cri_client_pb2 as pb
from koord_demo.cri_client import AsyncCri, Cri, method_path
from koord_demo.pods import (
    PodPlan,
    RunningPod,
    batch_pod_config,
    burstable_pod_config,
    remove_pod,
    run_pod,
)

__all__ = [
    "AsyncCri",
    "Cri",
    "PodPlan",
    "RunningPod",
    "batch_pod_config",
    "burstable_pod_config",
    "method_path",
    "pb",
    "remove_pod",
    "run_pod",
]
