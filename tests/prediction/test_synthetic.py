import gzip
import importlib.resources
import io

import numpy as np
from koord_model.priority import PriorityClass
from koord_prediction.models import SYS
from koord_prediction.synthetic import STEP, synthetic
from koord_prediction.trace import parse


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


def test_it_has_the_shape_it_is_said_to_have() -> None:
    trace = synthetic()
    services = [n for n, pod in enumerate(trace.pods) if pod.priority is PriorityClass.PROD]
    jobs = [n for n, pod in enumerate(trace.pods) if pod.priority is PriorityClass.BATCH]
    assert [pod.name for pod in trace.pods if pod.priority is PriorityClass.NONE] == [SYS]
    cpu = np.nansum(trace.cpu[:, services], axis=1)
    by_hour = cpu.reshape(3, 24, 12).mean(axis=(0, 2))
    assert by_hour.max() > 1.4 * by_hour.min(), "day and night"
    memory = np.nansum(trace.memory[:, services], axis=1)
    assert memory.std() < 0.05 * memory.mean()
    asked = np.array([trace.pods[n].request.cpu for n in services])
    used = np.nanmean(trace.cpu[:, services], axis=0)
    assert (used < 0.5 * asked).all()
    hours = (~np.isnan(trace.cpu[:, jobs])).sum(axis=0) * STEP / 3600
    assert 0.5 < np.median(hours) < 2
    assert hours.max() < 12
