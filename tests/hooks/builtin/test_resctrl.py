import json
from dataclasses import replace

from koord_hooks.builtin import resctrl
from koord_model.keys import ANNOTATION_RESCTRL, LABEL_QOS
from koord_model.node import Kernel, NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.qos import QoSClass
from koord_model.resctrl import CacheWays, ResctrlLimits

NODE = NodeView(kernel=Kernel(resctrl=True))
ASKED = {"llc": {"schemata": {"range": [0, 50]}}, "mb": {"schemata": {"percent": 40}}}
WISH = ResctrlLimits("koordlet-u-1", llc=CacheWays(0, 50), mb=40, fallback=QoSClass.BE)
WHERE = "pod shop/web-0: annotation node.koordinator.sh/resctrl: "


def pod(asked: object = None, qos: str = "BE") -> Pod:
    annotations = {} if asked is None else {ANNOTATION_RESCTRL: json.dumps(asked)}
    return Pod("web-0", "shop", "u-1", {LABEL_QOS: qos}, annotations)


def of(asked: Pod, view: NodeView = NODE) -> Patch | None:
    patch = resctrl.pre_run_pod_sandbox(asked, view)
    assert patch == resctrl.pre_create_container(Container(asked, "main"), view)
    return patch


def test_a_pod_and_its_containers_have_one_group() -> None:
    assert of(pod(ASKED)) == Patch(
        resctrl=WISH, why="llc 0–50 %, mb 40 % → resctrl group koordlet-u-1"
    )


def test_a_pod_that_asks_for_nothing_is_left_alone() -> None:
    assert of(pod()) is None
    assert of(pod({})) is None


def test_a_bad_field_leaves_the_others_and_each_has_its_line() -> None:
    bad = {"mb": {"schemata": {"percent": 150}}}
    line = f"{WHERE}mb.schemata.percent is 150; expected 1 to 100 (ignored)"
    patch = of(pod({**ASKED, **bad}))
    assert patch is not None
    assert (patch.resctrl, patch.ignored) == (replace(WISH, mb=None), (line,))
    patch = of(pod({**bad, "l4": {}}))
    assert patch is not None
    assert (patch.resctrl, len(patch.ignored)) == (None, 2)


def test_a_node_without_resctrl_says_so() -> None:
    patch = of(pod(ASKED), NodeView())
    line = f"{WHERE}this node has no resctrl to set llc 0–50 %, mb 40 % with (ignored)"
    assert patch == Patch(ignored=(line,))
