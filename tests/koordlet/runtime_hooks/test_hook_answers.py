"""What hook calls were answered, for people."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from koord_hooks.runner import HookRunner
from koord_hooks.specs import hookimpl
from koord_hooks.stages import Stage
from koord_host.resource_executor.journal import HookAnswerEntry, Journal, PluginAnswerEntry, decode
from koord_model.core_sched import CoreSchedGroup, GroupKind
from koord_model.node import NodeView
from koord_model.patch import Device, Mount, Patch
from koord_model.pod import Container, Pod
from koord_model.resctrl import ResctrlLimits
from koord_model.resources import LinuxResources
from koordlet.runtime_hooks import hook_answers
from koordlet.runtime_hooks.hook_answers import HookAnswers, Transport

POD = Pod("job-1", "batch", "u1", cgroup_parent="/kubepods/besteffort/podu1")
MAIN = Container(POD, "main", resources=LinuxResources(cpu_shares=2, cpu_quota=-1))
CREATE, RUN = Stage.PRE_CREATE_CONTAINER, Stage.PRE_RUN_POD_SANDBOX
UPDATE = Stage.PRE_UPDATE_CONTAINER_RESOURCES
WIRE, NRI = Transport.HOOK_PROTOCOL, Transport.NRI

EVERYTHING = Patch(
    labels={"l": "1"},
    annotations={"a": "2"},
    env={"SECRET": "hunter2"},
    mounts={"/m": Mount("/host/m")},
    devices={"/dev/d": Device("/host/d")},
    knobs={"cpu.idle": 1},
    cgroup_parent="/elsewhere",
    core_sched=CoreSchedGroup(GroupKind.LABEL, "group"),
    resctrl=ResctrlLimits("BE"),
    resources=LinuxResources(cpu_shares=512, cpu_quota=-1, unified={"memory.high": "max"}),
    why="because",
)


def plugin(patch: Patch | Exception) -> SimpleNamespace:
    """Wants a patch at each stage, or raises."""

    def wanted() -> Patch:
        if isinstance(patch, Exception):
            raise patch
        return patch

    stages = ("pre_run_pod_sandbox", "pre_create_container")
    stages += ("pre_update_container_resources", "post_stop_container")
    return SimpleNamespace(**{name: hookimpl(wanted) for name in stages})


class Recorded:
    """The answers of some plugins, and what the journal was given."""

    def __init__(self, **plugins: Patch | Exception) -> None:
        self.runner = HookRunner((name, plugin(patch)) for name, patch in plugins.items())
        self.journal: list[HookAnswerEntry] = []
        self.now = 1000.0
        self.answers = HookAnswers(self.journal.append, lambda: self.now)

    def ask(
        self,
        transport: Transport = WIRE,
        stage: Stage = CREATE,
        subject: Pod | Container = MAIN,
        **more: Any,
    ) -> None:
        outcome = self.runner.run(stage, subject, NodeView())
        self.answers.keep(transport, stage, subject, outcome, **more)

    def only(self) -> HookAnswerEntry:
        [kept] = self.answers.find(lambda _: True)
        return kept.answer


def fields(answer: HookAnswerEntry) -> dict[str, tuple[object, object]]:
    return {field: (old, new) for one in answer.plugins for field, old, new in one.fields}


A, ENV = {"annotations[a]": (None, "2")}, {"env[SECRET]": (None, "(not shown)")}
LIMITS = {"cpu_shares": (2, 512), "unified[memory.high]": (None, "max")}


@pytest.mark.parametrize(
    ("transport", "stage", "subject", "changed"),
    [
        (WIRE, CREATE, MAIN, LIMITS | A | ENV),
        (WIRE, UPDATE, MAIN, LIMITS | A),
        (
            WIRE,
            RUN,
            replace(POD, resources=MAIN.resources, labels={"l": "0"}),
            LIMITS
            | A
            | {
                "labels[l]": ("0", "1"),
                "cgroup_parent": ("/kubepods/besteffort/podu1", "/elsewhere"),
            },
        ),
        (
            NRI,
            CREATE,
            MAIN,
            LIMITS
            | A
            | ENV
            | {
                "mounts[/m]": (None, "/host/m"),
                "devices[/dev/d]": (None, "/host/d"),
                "resctrl": (None, "BE"),
            },
        ),
        (NRI, UPDATE, MAIN, LIMITS),
    ],
)
def test_what_an_answer_changes_is_what_its_transport_carries(transport, stage, subject, changed):
    kept = Recorded(plugin=EVERYTHING)
    kept.ask(transport, stage, subject)
    answer = kept.only()
    assert fields(answer) == changed
    assert (answer.hook, answer.transport, answer.pod) == (stage, transport, "batch/job-1")
    assert answer.container == ("" if isinstance(subject, Pod) else "main")
    assert [(one.plugin, one.why) for one in answer.plugins] == [("plugin", "because")]
    assert kept.journal == [answer]
    assert decode(hook_line(answer)) == answer


def hook_line(answer: HookAnswerEntry) -> bytes:
    journal = Journal("/none", pytest.fail)
    journal.add(answer)
    [line] = journal._lines
    return line


def test_what_the_answer_left_out_was_not_changed():
    kept = Recorded(plugin=EVERYTHING)
    kept.ask(NRI, left_out=("mounts[/m]", "devices[/dev/d]", "resctrl"))
    assert {"mounts[/m]", "devices[/dev/d]", "resctrl"}.isdisjoint(fields(kept.only()))


def test_calls_whose_answers_change_nothing_are_passed_over():
    kept = Recorded(plugin=EVERYTHING)
    kept.ask(stage=Stage.POST_STOP_CONTAINER)
    assert kept.answers.find(lambda _: True) == []


def test_what_was_wrong_is_noted_and_what_is_disputed_left_out():
    kept = Recorded(
        one=Patch(resources=LinuxResources(cpu_shares=1), ignored=("annotation x is y",)),
        other=Patch(resources=LinuxResources(cpu_shares=3)),
        broken=RuntimeError("oh"),
    )
    kept.ask()
    answer = kept.only()
    assert answer.plugins == ()
    failed, disputed, ignored = answer.notes
    assert failed == "broken failed: RuntimeError: oh"
    assert "cpu_shares" in disputed
    assert ignored == "ignored: annotation x is y"
    assert kept.journal == [answer]


def test_the_same_again_is_counted_and_journalled_once():
    kept = Recorded(plugin=EVERYTHING)
    for kept.now in (1000.0, 1010.0, 1020.0):
        kept.ask()
    [one] = kept.answers.find(lambda _: True)
    assert (one.since, one.at, one.times) == (1000.0, 1020.0, 3)
    assert len(kept.journal) == 1
    # The kubelet asks for something else: another answer.
    kept.ask(subject=replace(MAIN, resources=LinuxResources(cpu_shares=4)))
    [one] = kept.answers.find(lambda _: True)
    assert (one.times, fields(one.answer)["cpu_shares"]) == (1, (4, 512))
    assert len(kept.journal) == 2


def test_an_answer_that_changes_nothing_is_known_and_not_journalled():
    kept = Recorded(plugin=Patch())
    kept.ask()
    assert kept.only().plugins == ()
    assert kept.journal == []


def test_of_which_pods():
    kept = Recorded(plugin=EVERYTHING)
    kept.ask(stage=RUN, subject=POD)
    kept.ask()
    kept.ask(subject=replace(MAIN, pod=replace(POD, name="other")))
    found = kept.answers.find(lambda pod: pod == "batch/job-1")
    assert [one.answer.hook for one in found] == [RUN, CREATE]


def test_memory_is_bounded_and_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(hook_answers, "MOST_PODS", 2)
    monkeypatch.setattr(hook_answers, "MOST_OF_POD", 2)
    kept = Recorded(plugin=EVERYTHING)
    for pod in ("a", "b", "a", "c"):
        for name in ("1", "2", "3"):
            kept.ask(subject=Container(replace(POD, name=pod), name))
    found = [one.answer for one in kept.answers.find(lambda _: True)]
    assert [(one.pod, one.container) for one in found] == [
        *(("batch/a", "2"), ("batch/a", "3"), ("batch/c", "2"), ("batch/c", "3"))
    ]


def test_a_huge_patch_is_cut(monkeypatch):
    annotations = {f"{number}" * 300: "v" * 5000 for number in range(1000)}
    kept = Recorded(plugin=Patch(annotations=annotations, why="w" * 5000), other=EVERYTHING)
    kept.ask()
    assert sum(len(one.fields) for one in kept.only().plugins) <= hook_answers.MOST_FIELDS
    assert len(hook_line(kept.only())) < 1 << 16
    assert isinstance(kept.only().plugins[0], PluginAnswerEntry)
