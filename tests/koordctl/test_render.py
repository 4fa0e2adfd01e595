import datetime

import msgspec
from koordctl.answers import Container, HookServer, Missed, Pod, Status, read, unmanaged
from koordctl.render import pod_lines, status_lines


def test_status(health: bytes) -> None:
    assert list(status_lines(read(health, Status), "127.0.0.1:9319")) == [
        "koord-runtime-proxy at 127.0.0.1:9319: degraded",
        "",
        "backend      ok",
        "database     ok",
        "connections  3",
        "records      2 pods, 3 containers; 1 went without a hook (koordctl pods --unmanaged)",
        "",
        "HOOK SERVER  POLICY  BREAKER                            STAGES",
        (
            "koordlet     Ignore  open (not asked, does not answer)  "
            "PreCreateContainer, PreRunPodSandbox"
        ),
    ]


def test_status_of_a_proxy_that_has_just_begun() -> None:
    lines = list(status_lines(Status("ok", pods=1), "/s"))
    assert "records      1 pod, 0 containers; not yet compared with the runtime's lists" in lines
    assert lines[-1] == "No hook server is registered: every call passes as it came."


def test_states_and_stages_not_known_here() -> None:
    servers = [HookServer("a", breaker="ajar"), HookServer("b", breaker="half_open")]
    *_, first, second = status_lines(Status("ok", hook_servers=servers), "/s")
    assert first.split() == ["a", "ajar", "none"]
    assert "half open (one call is let through)" in second


def test_pods(pods: bytes) -> None:
    known = read(pods, list[Pod])
    assert list(pod_lines(known, datetime.UTC)) == [
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
    assert len(list(pod_lines(unmanaged(known), datetime.UTC))) == 4


def test_times_are_those_of_the_zone() -> None:
    pod = Pod("p", "ns/p", managed=False, missed=[Missed("S", "koordlet", "away", 0.0)])
    *_, line = pod_lines([pod], datetime.timezone(datetime.timedelta(hours=2)))
    assert line.split(maxsplit=2) == ["1970-01-01", "02:00:00", "S of koordlet: away"]


def test_nothing_to_show() -> None:
    assert list(pod_lines([])) == ["No pods are known."]
    assert list(pod_lines([], only_unmanaged=True)) == ["Every pod got the hooks that were due."]


def test_others_words_stay_on_their_line_and_leave_the_terminal_alone() -> None:
    nasty = Missed("S", "k", "a\nb\x1b[2Jc\r\u202ed", 0.0)
    pod = Pod("p", "ns/p", managed=False, missed=[nasty], containers=[Container("c", "x\ty")])
    lines = list(pod_lines([pod], datetime.UTC))
    assert all(line.isprintable() for line in lines)
    assert lines[2].endswith("a b�[2Jc �d")
    status = msgspec.structs.replace(Status("ok"), backend="away\nnow")
    assert "backend      away now" in status_lines(status, "/s")
