from pathlib import Path

import pytest
from koordlet.states.pod_source import PodFile


async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_text("{}")
    source = PodFile(str(path))
    assert await source.pods() == b"{}"
    path.unlink()
    with pytest.raises(OSError, match=f"{path}: No such file or directory"):
        await source.pods()
