import datetime

import msgspec
from koordctl.output.tables import plain
from koordctl.proxy_documents import (
    ContainerHooks,
    HookServerRow,
    MissedHook,
    PodHooks,
    ProxyStatus,
    read,
    unmanaged,
)
from koordctl.render import pod_lines, status_lines


def test_status(health: bytes) -> None:
    assert plain(status_lines(read(health, ProxyStatus), "127.0.0.1:9319")) == [
        "koord-runtime-proxy at 127.0.0.1:9319: degraded",
        "",
        "backend      ok",
        "database     ok",
        "connections  3",
        "records      2 pods, 3 containers; 1 missed a hook (koordctl pods --unmanaged)",
        "",
        "HOOK SERVER  POLICY  BREAKER                                  STAGES",
        (
            "koordlet     Ignore  open (no calls: server does not answer)  "
            "PreCreateContainer, PreRunPodSandbox"
        ),
    ]


def test_status_of_a_proxy_that_has_just_begun() -> None:
    lines = plain(status_lines(ProxyStatus("ok", pods=1), "/s"))
    assert "records      1 pod, 0 containers; not yet compared with the runtime" in lines
    assert lines[-1] == "No hook server is registered: all calls pass unchanged."


def test_states_and_stages_not_known_here() -> None:
    servers = [HookServerRow("a", breaker="ajar"), HookServerRow("b", breaker="half_open")]
    *_, first, second = plain(status_lines(ProxyStatus("ok", hook_servers=servers), "/s"))
    assert first.split() == ["a", "ajar", "none"]
    assert "half open (one trial call)" in second


def test_pods(pods: bytes) -> None:
    known = read(pods, list[PodHooks])
    assert plain(pod_lines(known, datetime.UTC)) == [
        "POD / CONTAINER  HOOKS",
        "shop/web         managed",
        "  app            managed",
        "batch/job-1      managed",
        "  main           unmanaged: missed 1 hook",
        (
            "                   2023-11-14 22:13:20  PreCreateContainer of koordlet: "
            "no answer within 2 s"
        ),
        "  sidecar        managed",
    ]
    assert len(plain(pod_lines(unmanaged(known), datetime.UTC))) == 4


def test_times_are_those_of_the_zone_and_nothing_to_show() -> None:
    pod = PodHooks("p", "ns/p", managed=False, missed=[MissedHook("S", "koordlet", "away", 0.0)])
    *_, line = plain(pod_lines([pod], datetime.timezone(datetime.timedelta(hours=2))))
    assert line.split(maxsplit=2) == ["1970-01-01", "02:00:00", "S of koordlet: away"]
    assert plain(pod_lines([])) == ["No pods are known."]
    assert plain(pod_lines([], only_unmanaged=True)) == ["No pod missed a hook."]


def test_others_words_stay_on_their_line_and_leave_the_terminal_alone() -> None:
    nasty = MissedHook("S", "k", "a\nb\x1b[2Jc\r\u202ed", 0.0)
    pod = PodHooks(
        "p", "ns/p", managed=False, missed=[nasty], containers=[ContainerHooks("c", "x\ty")]
    )
    lines = plain(pod_lines([pod], datetime.UTC))
    assert all(line.isprintable() for line in lines)
    assert lines[2].endswith("a b�[2Jc �d")
    status = msgspec.structs.replace(ProxyStatus("ok"), backend="away\nnow")
    assert "backend      away now" in plain(status_lines(status, "/s"))
