import gzip
import importlib.resources
import io

import numpy as np
from koord_prediction.trace import parse

from tests.support.synthetic_trace import STEP, synthetic


def test_the_trace_shipped_is_the_one_made() -> None:
    packed = (importlib.resources.files("koord_prediction") / "synthetic.csv.gz").read_bytes()
    assert len(packed) < 300_000
    shipped, made = parse(io.StringIO(gzip.decompress(packed).decode(), newline="")), synthetic()
    assert shipped.step == made.step == STEP
    assert shipped.times.tolist() == made.times.tolist()
    order = [[pod.name for pod in shipped.pods].index(pod.name) for pod in made.pods]
    assert [shipped.pods[place] for place in order] == list(made.pods)
    # Mathematical libraries may round the last digit another way.
    assert np.allclose(shipped.cpu[:, order], made.cpu, atol=0.0011, rtol=0, equal_nan=True)
    assert np.allclose(shipped.memory[:, order], made.memory, atol=2**22, rtol=0, equal_nan=True)
