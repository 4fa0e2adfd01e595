"""The commands of docs/replace-koordinator.md name what Koordinator and pykoord install."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import yaml
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.deploy.manifests import Id, everything, installed
from tests.docs.words import ROOT, page
from tests.support.koordinator_arguments import COMMANDS
from tests.support.koordinator_objects import BINDINGS, CONTAINERS, KEPT_DEFINITIONS, ROLES
from tools.published import documented_image

PAGE = page("replace-koordinator.md")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OVERLAY = yaml.safe_load(PAGE.partition("<<'EOF'\n")[2].partition("EOF\n")[0])


def commands(program: str) -> Iterator[list[str]]:
    """The words of each command of a program, also of those in the text."""
    text = re.sub(r"<<'EOF'.*?^EOF$", "", "\n".join(BLOCKS), flags=re.MULTILINE | re.DOTALL)
    lines = [*text.replace("\\\n", "").splitlines(), *re.findall(r"`([^`\n]+ [^`\n]+)`", PAGE)]
    for part in (part for line in lines for part in line.split(" | ")):
        if part.strip().startswith(f"{program} "):
            yield shlex.split(part.partition(" > ")[0])


KUBECTL = list(commands("kubectl"))


def names(kind: str) -> Iterator[str]:
    """All objects of a kind that commands name, as ``kind/name`` or as ``kind name…``."""
    for words in KUBECTL:
        yield from (word.partition("/")[2] for word in words if word.startswith(f"{kind}/"))
        if kind in words:
            after = words[words.index(kind) + 1 :]
            yield from (word for word in after if re.fullmatch(r"[a-z][a-z.0-9-]*", word))


def test_workloads_are_koordinators_and_ours() -> None:
    ours = {(kind.lower(), name) for kind, _, name in everything()}
    for kind in ("deployment", "daemonset"):
        named = set(names(kind)) - {"rollout", "undo"}
        assert named == {name for of, name in CONTAINERS if of == kind}
        # Ours have another name where two kinds of nodes have one each.
        assert {(kind, name) for name in named} - ours <= {("daemonset", "koord-device-daemon")}


def test_images_replace_those_of_koordinators_containers() -> None:
    replaced = {}
    for words in KUBECTL:
        if words[3:5] == ["set", "image"]:
            container, _, image = words[6].partition("=")
            replaced[tuple(words[5].split("/"))] = container
            assert image == documented_image(words[5].partition("/")[2])
            assert words[5].partition("/")[2] in COMMANDS
    assert replaced == CONTAINERS


def test_definitions_that_are_kept_are_all_of_the_charts() -> None:
    assert set(names("crd")) == KEPT_DEFINITIONS
    ours = {definition["metadata"]["name"] for definition in DEFINITIONS}
    assert KEPT_DEFINITIONS - ours == {"scheduleexplanations.scheduling.koordinator.sh"}


def test_permissions_that_are_removed_are_not_ours() -> None:
    found = {kind: set(names(kind)) for kind in ("clusterrole", "clusterrolebinding")}
    kept = "koord-descheduler-role"
    assert found == {
        "clusterrole": ROLES - {kept},
        "clusterrolebinding": BINDINGS - {f"{kept}binding"},
    }
    assert not {name for _, _, name in everything()} & (ROLES | BINDINGS)


def test_files_are_there() -> None:
    made = set(re.findall(r"> (\S+\.yaml)", PAGE))
    given = {word for words in KUBECTL for word in words if word.endswith(".yaml")}
    assert given
    for path in {word.rpartition("=")[2] for word in given} - made:
        assert (ROOT / path).is_file(), path


def test_the_overlay_has_our_parts_and_leaves_configuration_alone() -> None:
    folders = [*OVERLAY["resources"], *OVERLAY["components"]]
    assert all(
        (ROOT / "replace" / path / "kustomization.yaml").resolve().is_file() for path in folders
    )
    objects = installed(*(path.rpartition("/")[2] for path in OVERLAY["components"]))
    pattern = OVERLAY["patches"][0]["target"]["name"]
    left_alone = {key for key in objects if _is_map(key) and re.fullmatch(pattern, key[2])}
    assert left_alone == {key for key in objects if _is_map(key)}
    assert {image["name"] for image in OVERLAY["images"]} <= COMMANDS.keys()
    patched = yaml.safe_load(OVERLAY["patches"][1]["patch"])
    [container] = patched["spec"]["template"]["spec"]["containers"]
    assert CONTAINERS["daemonset", patched["metadata"]["name"]] == container["name"]


def _is_map(key: Id) -> bool:
    return key[0] == "ConfigMap"


def test_helm_upgrades_the_release_that_is_saved() -> None:
    upgrades = [words for words in commands("helm") if words[3:4] == ["upgrade"]]
    assert len(upgrades) == 3
    for words in upgrades:
        assert words[words.index("--version") + 1] == "1.8.0"
        assert "--reuse-values" in words
    assert [words[-1] for words in upgrades[:2]] == ["crds.managed=false", "crds.managed=true"]
