"""Hook servers that hang, die, talk garbage, are late or refuse, under both policies."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage

from tests.support.cgroups import UNLIMITED, container_values
from tests.support.containerd import requires_containerd
from tests.support.cri import Cri, batch_pod_config, burstable_pod_config, pb, remove_pod, run_pod
from tests.support.hook_server import HookServer, echo, waiting
from tests.support.processes import until
from tests.support.proxy import Koordlet, Proxy, trials

CREATE = Stage.PRE_CREATE_CONTAINER
STEP = 0.3
"""Seconds that a hook server has to answer which is not to make it."""
BRIEF = 1.0
"""Seconds that a koordlet has which is stopped: fewer than a connection has to come up."""

SKIP_KEY = "runtimeproxy.koordinator.sh/skip-hookserver"


@pytest.fixture
def brief(directory) -> Iterator[Koordlet]:
    """A koordlet for which the proxy does not wait long."""
    with Koordlet(directory, directory / "hookserver.d", f"--hook-timeout={BRIEF:g}") as instance:
        yield instance


@pytest.fixture
def hung(hooks) -> Iterator[HookServer]:
    """A hook server that does not answer."""
    forever = threading.Event()
    hooks.behave = waiting(forever)
    yield hooks
    forever.set()


def test_ignored(proxy, cri, hung):
    """Under Ignore the pod starts, and is shown as unmanaged."""
    proxy.use(hung, stages=(CREATE,), timeout=STEP)
    pod = run_pod(cri, batch_pod_config())
    record = proxy.containers()[pod.container_id]
    assert not record["managed"]
    (missed,) = record["missed"]
    assert (missed["stage"], missed["server"]) == (CREATE, "hooks")
    assert missed["reason"] == "no answer within 0.3 s"
    assert proxy.metric("unmanaged") == proxy.healthz()["unmanaged"] == 1
    assert proxy.metric("intercepted_calls_total", method="CreateContainer", result="missed") == 1
    # Once for the call; the repair may have asked again since.
    assert proxy.outcomes("timeout", server="hooks") >= 1
    remove_pod(cri, pod)
    assert proxy.metric("unmanaged") == 0


def test_failing(proxy, cri, runtime, hooks):
    """Under Fail the call ends with UNAVAILABLE, and the runtime never hears of it."""
    proxy.use(hooks, stages=(CREATE,), policy="Fail")
    hooks.die()
    plan = batch_pod_config()
    sandbox = cri.run_pod_sandbox(plan.sandbox)
    with pytest.raises(grpc.RpcError) as failure:
        cri.create_container(sandbox, plan.container, plan.sandbox)
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    details = failure.value.details()
    assert "hook server hooks at PreCreateContainer" in details
    assert "unreachable" in details
    assert runtime.requests_of("CreateContainer") == []
    assert proxy.containers() == {}
    assert proxy.metric("intercepted_calls_total", method="CreateContainer", result="refused") == 1
    # Other calls on the same connection go on.
    assert cri.version().runtime_name == "embedded"


def test_stopped_process_costs_one_deadline_and_is_asked_again(proxy, cri, brief, runtime):
    """SIGSTOP is the purest of hangs: connections stand, nobody answers, not even a probe."""
    koordlet = brief
    proxy.wait_for_server("koordlet")
    until(lambda: _is_hooked(cri, runtime), "koordlet answers in time")
    koordlet.signal(signal.SIGSTOP)
    assert not _is_hooked(cri, runtime)
    assert proxy.breaker("koordlet") == "open"
    assert proxy.metric("breaker_state", server="koordlet") == 2
    assert proxy.healthz()["status"] == "degraded"
    # Those under way at that moment each waited: this call, and what came after the last pod.
    waited = proxy.outcomes("timeout", server="koordlet")
    assert waited >= 1
    taken = []
    for _ in range(5):
        began = time.monotonic()
        assert not _is_hooked(cri, runtime)
        taken.append(time.monotonic() - began)
    assert proxy.outcomes("timeout", server="koordlet") == waited
    # At each of several stages it would be waited for.
    assert min(taken) < 2 * BRIEF
    koordlet.signal(signal.SIGCONT)
    proxy.wait_for_breaker_not_open("koordlet")
    until(lambda: _is_hooked(cri, runtime), "koordlet is asked again")
    assert proxy.breaker("koordlet") == "closed"
    assert proxy.healthz()["hook_servers"][0]["breaker"] == "closed"


def test_restarted_koordlet_is_asked_at_once(proxy, cri, koordlet, runtime):
    """It writes its registration when it starts, with what was in it before."""
    proxy.wait_for_server("koordlet")
    assert _is_hooked(cri, runtime)
    koordlet.kill()
    written = koordlet.registration.read_bytes()
    # By then several probes found nobody, and the next is as far away as any.
    opened = time.monotonic()
    assert not _is_hooked(cri, runtime)
    while time.monotonic() < opened + 16:
        assert proxy.breaker("koordlet") == "open"
        time.sleep(0.1)
    koordlet.start()
    assert koordlet.registration.read_bytes() == written
    proxy.wait_for_breaker_not_open("koordlet")
    assert trials(time.monotonic() - opened, 0.0) <= trials(16.0, 0.0), "it came by itself"
    assert _is_hooked(cri, runtime)
    assert proxy.breaker("koordlet") == "closed"


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_skipped_pods_are_never_held_up(proxy, cri, hung, where):
    """So that a node can always start its own agent."""
    proxy.use(hung, policy="Fail", timeout=120)
    marked: dict[str, Any] = {where: {SKIP_KEY: "true"}}
    pod = run_pod(cri, burstable_pod_config(**marked), timeout=60)
    cri.update_container_resources(
        pod.container_id, pb.LinuxContainerResources(cpu_shares=77), timeout=60
    )
    remove_pod(cri, pod, timeout=60)
    assert hung.asked == []
    assert proxy.metric("intercepted_calls_total", result="exempt") >= 4
    # And only they are not: the value counts, too.
    marked = {where: {SKIP_KEY: "false"}}
    with pytest.raises(grpc.RpcError) as failure:
        run_pod(cri, burstable_pod_config(**marked), timeout=1)
    assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_client_giving_up_cancels_the_hook_call(proxy, cri, hung, runtime):
    proxy.use(hung, stages=(CREATE,), timeout=60)
    plan = batch_pod_config()
    sandbox = cri.run_pod_sandbox(plan.sandbox)
    with pytest.raises(grpc.RpcError) as failure:
        cri.create_container(sandbox, plan.container, plan.sandbox, timeout=5)
    assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: hung.cancelled == 1, "the hook server was not reported")
    proxy.wait_until(lambda: proxy.outcomes("cancelled", server="hooks") == 1, "not counted")
    proxy.wait_until(lambda: _abandoned(proxy) == 1, "not counted")
    assert proxy.breaker("hooks") == "closed"
    assert runtime.requests_of("CreateContainer") == []
    # The same again, once the server has come to its senses.
    hung.behave = echo
    assert cri.create_container(sandbox, plan.container, plan.sandbox)


# On a real containerd.


@requires_containerd
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_killed_koordlet_for_real(containerd, real_proxy, koordlet, policy):
    hooks = koordlet.registration.read_text()
    koordlet.registration.write_text(hooks.replace('"Ignore"', f'"{policy}"'))
    real_proxy.wait_until(lambda: real_proxy.policy("koordlet") == policy, "not in use")
    plan = batch_pod_config(cgroup_root=containerd.cgroup_root)
    with real_proxy.cri() as cri:
        koordlet.kill()
        if policy == "Fail":
            with pytest.raises(grpc.RpcError) as failure:
                run_pod(cri, plan)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "koordlet at PreRunPodSandbox" in failure.value.details()
            assert cri.list_pod_sandbox() == []
        else:
            pod = run_pod(cri, plan)
            assert container_values(cri, pod.container_id).memory_limit == UNLIMITED
            assert not real_proxy.containers()[pod.container_id]["managed"]
            remove_pod(cri, pod)
        # The registration is rewritten at the start: the policy is Ignore again.
        koordlet.start()
        real_proxy.wait_for_breaker_not_open("koordlet")
        pod = run_pod(cri, plan)
        assert container_values(cri, pod.container_id).memory_limit == 128 << 20


def _is_hooked(cri: Cri, runtime: Any) -> bool:
    pod = run_pod(cri, batch_pod_config())
    sent = pb.CreateContainerRequest.FromString(runtime.requests_of("CreateContainer")[-1])
    remove_pod(cri, pod)
    return bool(sent.config.linux.resources.cpu_shares == 512)


def _abandoned(proxy: Proxy) -> float:
    return proxy.metric("intercepted_calls_total", result="abandoned")
