"""The plugin for krew: its manifest keeps krew's rules, and its archive is what it says."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from pathlib import Path

import yaml
from koord_model.version import VERSION

from tools import krew


def test_the_archive_and_its_manifest(tmp_path: Path) -> None:
    program = tmp_path / "koordctl.pex"
    program.write_text('#!/bin/sh\necho "koordctl $*"\n')
    krew.main([str(program), "https://example.org/releases/", str(tmp_path)])
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    krew.main([str(program), "https://example.org/releases/", str(tmp_path)])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first

    # As ValidatePlugin and ValidatePlatform of krew's pkg/index/validation have it.
    plugin = yaml.safe_load((tmp_path / "koord.yaml").read_text())
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (plugin["kind"], plugin["metadata"]["name"]) == ("Plugin", "koord")
    spec = plugin["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert spec["version"] == f"v{VERSION}"
    assert 0 < len(spec["shortDescription"]) <= 80
    assert not set("\r\n") & set(spec["shortDescription"])
    [platform] = spec["platforms"]
    assert platform["selector"]["matchLabels"]["os"] == "linux"
    assert platform["uri"].startswith("https://example.org/releases/kubectl-koord-")

    packed = tmp_path / platform["uri"].rpartition("/")[2]
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == platform["sha256"]
    with tarfile.open(packed) as files:
        assert {each["from"] for each in platform["files"]} == set(files.getnames())
        files.extractall(tmp_path / "there", filter="data")
    called = [tmp_path / "there" / platform["bin"], "status"]
    done = subprocess.run(called, capture_output=True, text=True, check=True)
    assert done.stdout == "koordctl status\n"
