"""Hook servers that hang, die, talk garbage, are late or refuse, under both policies."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from koord_hooks.stages import Stage

from tests.support.cgroups import UNLIMITED, container_values
from tests.support.containerd import requires_containerd
from tests.support.cri import Cri, batch_pod_config, burstable_pod_config, pb, remove_pod, run_pod
from tests.support.hook_server import (
    LENIENT,
    HookServer,
    NotHttp2,
    echo,
    garbage,
    refusing,
    waiting,
    wishing,
)
from tests.support.processes import until
from tests.support.proxy import GIVEN_UP, Koordlet, Proxy, trials

CREATE = Stage.PRE_CREATE_CONTAINER
STEP = 0.3
"""Seconds that a hook server has to answer which is not to make it."""
BRIEF = 1.0
"""Seconds that a koordlet has which is stopped: fewer than a connection has to come up."""

SKIP_KEY = "runtimeproxy.koordinator.sh/skip-hookserver"


class Trouble:
    """What is wrong with a hook server, and what is said of it."""

    def __init__(
        self,
        outcome: str,
        words: str,
        begin: Callable[[HookServer, ExitStack], None],
        timeout: float = LENIENT,
    ) -> None:
        self.outcome = outcome
        self.words = words
        self.begin = begin
        self.timeout = timeout


def _hang(server: HookServer, ends: ExitStack) -> None:
    forever = threading.Event()
    ends.callback(forever.set)
    server.behave = waiting(forever)


def _answer_late(server: HookServer, ends: ExitStack) -> None:
    def behave(asked: Any, question: Any) -> bytes:
        time.sleep(10 * STEP)
        return echo(asked, question)

    server.behave = behave


def _die(server: HookServer, ends: ExitStack) -> None:
    server.die()


def _die_leaving_its_socket(server: HookServer, ends: ExitStack) -> None:
    server.die()
    server.socket.unlink(missing_ok=True)
    NotHttp2(server.socket).close()


def _be_somebody_else(server: HookServer, ends: ExitStack) -> None:
    server.die()
    server.socket.unlink(missing_ok=True)
    ends.enter_context(NotHttp2(server.socket))


def _talk_garbage(server: HookServer, ends: ExitStack) -> None:
    server.behave = garbage


def _refuse(server: HookServer, ends: ExitStack) -> None:
    server.behave = refusing


TROUBLES = {
    "hung": Trouble("timeout", "no answer within 0.3 s", _hang, STEP),
    "late": Trouble("timeout", "no answer within 0.3 s", _answer_late, STEP),
    "dead": Trouble("unavailable", "unreachable", _die),
    "dead, socket left": Trouble("unavailable", "unreachable", _die_leaving_its_socket),
    "no gRPC at all": Trouble("", "", _be_somebody_else),
    "garbage": Trouble("garbage", "not a valid hook response", _talk_garbage),
    "refusing": Trouble("refused", "FAILED_PRECONDITION: not today", _refuse),
}


@pytest.fixture(params=TROUBLES.values(), ids=TROUBLES.keys())
def trouble(request) -> Trouble:
    return request.param


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def brief(directory) -> Iterator[Koordlet]:
    """A koordlet for which the proxy does not wait long."""
    with Koordlet(directory, directory / "hookserver.d", f"--hook-timeout={BRIEF:g}") as instance:
        yield instance


def _register(proxy: Proxy, server: HookServer, policy: str, **more: Any) -> None:
    more = {"stages": (CREATE,), **more}
    server.register(proxy.hooks, policy=policy, **more)
    proxy.wait_for_server(server.name)


def _hook_calls(proxy: Proxy, server: str) -> dict[str, float]:
    outcomes = ("applied", "unchanged", "timeout", "unavailable", "garbage", "refused", "skipped")
    counts = {outcome: proxy.outcomes(outcome, server=server) for outcome in outcomes}
    return {outcome: count for outcome, count in counts.items() if count}


def test_ignored(proxy, cri, hooks, ends, trouble):
    """Under Ignore the pod starts, and is shown as unmanaged."""
    _register(proxy, hooks, "Ignore", timeout=trouble.timeout)
    trouble.begin(hooks, ends)
    pod = run_pod(cri, batch_pod_config())
    record = proxy.containers()[pod.container_id]
    assert not record["managed"]
    (missed,) = record["missed"]
    assert (missed["stage"], missed["server"]) == (CREATE, "hooks")
    assert trouble.words in missed["reason"]
    assert proxy.metric("unmanaged") == proxy.healthz()["unmanaged"] == 1
    assert proxy.metric("intercepted_calls_total", method="CreateContainer", result="missed") == 1
    # Once for the call; the repair may have asked again since.
    outcomes = _hook_calls(proxy, "hooks")
    assert len(outcomes) == 1
    assert not trouble.outcome or trouble.outcome in outcomes
    remove_pod(cri, pod)
    assert proxy.metric("unmanaged") == 0


def test_failing(proxy, cri, runtime, hooks, ends, trouble):
    """Under Fail the call ends with UNAVAILABLE, and the runtime never hears of it."""
    _register(proxy, hooks, "Fail", timeout=trouble.timeout)
    trouble.begin(hooks, ends)
    plan = batch_pod_config()
    sandbox = cri.run_pod_sandbox(plan.sandbox)
    with pytest.raises(grpc.RpcError) as failure:
        cri.create_container(sandbox, plan.container, plan.sandbox)
    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    details = failure.value.details()
    assert "hook server hooks at PreCreateContainer" in details
    assert trouble.words in details
    assert runtime.requests_of("CreateContainer") == []
    assert proxy.containers() == {}
    assert proxy.metric("intercepted_calls_total", method="CreateContainer", result="refused") == 1
    # Other calls on the same connection go on.
    assert cri.version().runtime_name == "embedded"


def test_hung_server_costs_one_deadline(proxy, cri, hooks, ends):
    deadline = 2.0
    _register(proxy, hooks, "Ignore", timeout=deadline)
    _hang(hooks, ends)
    began = time.monotonic()
    run_pod(cri, batch_pod_config())
    assert time.monotonic() - began >= deadline
    assert proxy.outcomes("timeout", server="hooks") == 1
    assert len(proxy.events(GIVEN_UP)) == 1
    # Hung as it is, it answers probes: now and then one call finds out that it hangs.
    for _ in range(10):
        run_pod(cri, batch_pod_config())
    seconds = time.monotonic() - began
    waited = proxy.outcomes("timeout", server="hooks")
    assert waited <= 1 + trials(seconds - deadline, deadline) < 11
    # To make good what was missed is one of those tries, too, and no pod's.
    assert 11 - waited <= proxy.outcomes("skipped", server="hooks") <= 11


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


def test_breaker_closes_when_a_dead_server_is_back(proxy, cri, hooks):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    _register(proxy, hooks, "Fail")
    hooks.die()
    plan = batch_pod_config()
    sandbox = cri.run_pod_sandbox(plan.sandbox)
    for _ in range(3):
        with pytest.raises(grpc.RpcError):
            cri.create_container(sandbox, plan.container, plan.sandbox)
    assert proxy.breaker("hooks") == "open"
    hooks.start()
    proxy.wait_for_breaker_not_open("hooks")
    container = cri.create_container(sandbox, plan.container, plan.sandbox)
    assert proxy.breaker("hooks") == "closed"
    assert proxy.containers()[container]["managed"]
    status = cri.container_status(container).status
    assert status.resources.linux.cpu_shares == 321


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


def test_server_that_is_not_there_yet(proxy, cri, directory):
    """Registered before it listens, as a slow start makes it."""
    late_comer = HookServer(directory, "late-comer")
    _register(proxy, late_comer, "Ignore")
    pod = run_pod(cri, batch_pod_config())
    assert not proxy.containers()[pod.container_id]["managed"]
    with late_comer:
        proxy.wait_for_breaker_not_open("late-comer")
        pod = run_pod(cri, batch_pod_config())
        assert proxy.containers()[pod.container_id]["managed"]


def test_late_answers_are_dropped_and_counted(proxy, cri, hooks):
    answer = threading.Event()
    hooks.behave = waiting(answer, wishing(resources={"cpu_shares": 321}))
    _register(proxy, hooks, "Ignore", timeout=STEP)
    pod = run_pod(cri, batch_pod_config())
    assert proxy.outcomes("late", server="hooks") == 0
    answer.set()
    proxy.wait_until(lambda: proxy.outcomes("late", server="hooks") == 1, "did not count it")
    assert hooks.cancelled == 0
    assert cri.container_status(pod.container_id).status.resources.linux.cpu_shares == 2
    assert not proxy.containers()[pod.container_id]["managed"]
    # It lives after all.
    assert proxy.breaker("hooks") != "open"


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_skipped_pods_are_never_held_up(proxy, cri, hooks, ends, where):
    """So that a node can always start its own agent."""
    _hang(hooks, ends)
    _register(proxy, hooks, "Fail", stages=tuple(Stage), timeout=120)
    marked: dict[str, Any] = {where: {SKIP_KEY: "true"}}
    pod = run_pod(cri, burstable_pod_config(**marked), timeout=60)
    cri.update_container_resources(
        pod.container_id, pb.LinuxContainerResources(cpu_shares=77), timeout=60
    )
    remove_pod(cri, pod, timeout=60)
    assert hooks.asked == []
    assert proxy.metric("intercepted_calls_total", result="exempt") >= 4
    # And only they are not: the value counts, too.
    marked = {where: {SKIP_KEY: "false"}}
    with pytest.raises(grpc.RpcError) as failure:
        run_pod(cri, burstable_pod_config(**marked), timeout=1)
    assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_client_giving_up_cancels_the_hook_call(proxy, cri, hooks, ends, runtime):
    _hang(hooks, ends)
    _register(proxy, hooks, "Ignore", timeout=60)
    plan = batch_pod_config()
    sandbox = cri.run_pod_sandbox(plan.sandbox)
    with pytest.raises(grpc.RpcError) as failure:
        cri.create_container(sandbox, plan.container, plan.sandbox, timeout=5)
    assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    until(lambda: hooks.cancelled == 1, "the hook server was not told")
    proxy.wait_until(lambda: proxy.outcomes("cancelled", server="hooks") == 1, "not counted")
    proxy.wait_until(lambda: _abandoned(proxy) == 1, "not counted")
    assert proxy.breaker("hooks") == "closed"
    assert runtime.requests_of("CreateContainer") == []
    # The same again, once the server has come to its senses.
    hooks.behave = echo
    assert cri.create_container(sandbox, plan.container, plan.sandbox)


def test_client_that_dies_cancels_the_hook_call(proxy, hooks, ends):
    _hang(hooks, ends)
    _register(proxy, hooks, "Fail", timeout=60)
    plan = batch_pod_config()
    with ThreadPoolExecutor(1) as thread:
        with proxy.cri() as short_lived:
            sandbox = short_lived.run_pod_sandbox(plan.sandbox)
            call = thread.submit(
                short_lived.create_container, sandbox, plan.container, plan.sandbox
            )
            until(lambda: hooks.asked, "the hook server was not asked")
        until(lambda: hooks.cancelled == 1, "the hook server was not told")
        with pytest.raises(grpc.RpcError):
            call.result()
    proxy.wait_until(lambda: _abandoned(proxy) == 1, "not counted")


def test_one_bad_server_does_not_keep_the_others_from_being_asked(proxy, cri, hooks, directory):
    hooks.behave = wishing(resources={"cpu_shares": 321})
    _register(proxy, hooks, "Ignore", priority=2)
    with HookServer(directory, "bad", refusing) as bad:
        _register(proxy, bad, "Ignore", priority=1)
        pod = run_pod(cri, batch_pod_config())
    assert cri.container_status(pod.container_id).status.resources.linux.cpu_shares == 321
    missed = proxy.containers()[pod.container_id]["missed"]
    assert [one["server"] for one in missed] == ["bad"]


def test_stage_a_server_does_not_know(proxy, cri, directory, hooks):
    """UNIMPLEMENTED means that it is not subscribed, whatever its file says."""

    def unknown(asked: Any, question: Any) -> bytes:
        question.refuse(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
        return b""

    hooks.behave = unknown
    _register(proxy, hooks, "Fail", stages=tuple(Stage))
    pod = run_pod(cri, batch_pod_config())
    assert proxy.containers()[pod.container_id]["managed"]
    remove_pod(cri, pod)
    assert proxy.outcomes("not_subscribed", server="hooks") >= 4
    assert proxy.breaker("hooks") == "closed"


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_many_calls_at_a_hung_server(proxy, hooks, ends, policy):
    """Those that are under way together share the one deadline."""
    deadline = 3.0
    _register(proxy, hooks, policy, timeout=deadline)
    _hang(hooks, ends)

    def create(_: int) -> grpc.StatusCode:
        with proxy.cri() as cri:
            try:
                run_pod(cri, batch_pod_config())
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

    with ThreadPoolExecutor(20) as kubelet:
        started = time.monotonic()
        results = list(kubelet.map(create, range(20)))
        taken = time.monotonic() - started
    expected = {"Fail": grpc.StatusCode.UNAVAILABLE, "Ignore": grpc.StatusCode.OK}
    assert set(results) == {expected[policy]}
    # One after the other they would take twice that.
    assert taken < deadline * 10


def test_a_request_that_cannot_be_read(proxy, hooks):
    """It is for the runtime to say so, unless somebody insists on being asked."""
    with proxy.cri() as cri, grpc.insecure_channel(f"unix:{proxy.address}") as channel:
        call = channel.unary_unary("/runtime.v1.RuntimeService/CreateContainer")
        codes = []
        for policy in ("Ignore", "Fail"):
            _register(proxy, hooks, policy)
            proxy.wait_until(lambda policy=policy: proxy.policy("hooks") == policy, "not in use")
            with pytest.raises(grpc.RpcError) as failure:
                call(b"\xff\xff\xff", timeout=60)
            codes.append(failure.value.code())
        assert codes[0] is not grpc.StatusCode.UNAVAILABLE
        assert codes[1] is grpc.StatusCode.UNAVAILABLE
        assert cri.version()


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


@requires_containerd
def test_hung_koordlet_for_real(containerd, real_proxy, brief):
    koordlet = brief
    real_proxy.wait_for_server("koordlet")
    with real_proxy.cri() as cri:
        koordlet.signal(signal.SIGSTOP)
        unmanaged = run_pod(cri, batch_pod_config(cgroup_root=containerd.cgroup_root))
        assert container_values(cri, unmanaged.container_id).memory_limit == UNLIMITED
        assert real_proxy.outcomes("timeout", server="koordlet") == 1
        koordlet.signal(signal.SIGCONT)
        real_proxy.wait_for_breaker_not_open("koordlet")
        # The next update that it answers brings it what it missed.
        linux = pb.LinuxContainerResources(cpu_shares=2)

        def brought() -> bool:
            cri.update_container_resources(unmanaged.container_id, linux)
            return container_values(cri, unmanaged.container_id).memory_limit == 128 << 20

        until(brought, "koordlet is asked again")


def _is_hooked(cri: Cri, runtime: Any) -> bool:
    pod = run_pod(cri, batch_pod_config())
    sent = pb.CreateContainerRequest.FromString(runtime.requests_of("CreateContainer")[-1])
    remove_pod(cri, pod)
    return bool(sent.config.linux.resources.cpu_shares == 512)


def _abandoned(proxy: Proxy) -> float:
    return proxy.metric("intercepted_calls_total", result="abandoned")
