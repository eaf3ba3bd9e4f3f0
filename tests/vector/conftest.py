"""Makes this folder's modules importable by its tests and by the workers they start."""

import gc
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fault_tools
import ray_cluster
import vector_toys


def pytest_configure(config):
    config.addinivalue_line(
        "filterwarnings", "ignore:num_workers=:UserWarning"
    )  # more workers than cores is what many of these tests want


@pytest.fixture(scope="session", autouse=True)
def quick_collections():
    """All that the imports made stays; without it a collection takes milliseconds, not tenths."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


# Gathering is a pool's other way to put a batch together: what does not depend on the rows of a
# batch need not be seen on it in the quick tier. Pools of Ray's actors are for `on_all`.
SLOW = ("gather", "ray")
USUALLY = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name in [*vector_toys.USUAL, "ray"]
]


@pytest.fixture(scope="session")
def ray_session():
    """This program's own Ray session, on a cluster of two nodes."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'pufferlib[ray]'")
    with ray_cluster.Cluster() as cluster:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="WARNING")
        try:
            cluster.await_nodes(ray)
            yield cluster
        finally:
            ray.shutdown()


@pytest.fixture(params=USUALLY)
def build(request):
    """A function that makes four environments on one backend and closes them afterwards."""
    made = []
    if request.param in vector_toys.RAY:
        request.getfixturevalue("ray_session")

    def make(creator=vector_toys.make_draw, **kwargs):
        made.append(vector_toys.make(creator, request.param, **kwargs))
        return made[-1]

    make.backend = request.param
    yield make
    while made:  # nothing holds on to them afterwards
        made.pop().close()


def _backend(request):
    """What `build` builds on, if the test has it."""
    return request.node.callspec.params.get("build") if hasattr(request.node, "callspec") else None


@pytest.fixture
def nothing_left(request):
    """No process, shared memory, semaphore or open file outlives a test.

    A Ray cluster keeps processes for the next test; what is left there is for the tests of Ray.
    """
    if _backend(request) in vector_toys.RAY:
        yield
        return
    leftovers = fault_tools.Leftovers()
    yield
    leftovers.check()
