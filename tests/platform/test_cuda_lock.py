"""The lock as a machine with a GPU resolves it: torch's CUDA build from the default index."""

import re

import pytest
from engine_tools import ROOT, command, resolve

from pufferlib import lock

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def resolved(tmp_path_factory):
    """Metadata by name of everything that pip would install for torch and for CUDA_TOOLKIT=1."""
    items = resolve(tmp_path_factory.mktemp("resolve"), "torch", "cuda-toolkit[nvcc,cccl,cudart]")
    return {lock.canonical(item["metadata"]["name"]): item["metadata"] for item in items}


def test_every_package_is_locked(resolved):
    pins = lock.pins((ROOT / "constraints.txt").read_text())
    assert {name: meta["version"] for name, meta in resolved.items()} == {
        name: pins.get(name) for name in resolved
    }


def test_cuda_release_is_the_one_that_the_driver_minimum_belongs_to(resolved):
    """torch asks for one CUDA release; NVIDIA's driver 580 is the first that runs CUDA 13."""
    toolkit = next(r for r in resolved["torch"]["requires_dist"] if r.startswith("cuda-toolkit"))
    release = re.search(r"==(\d+\.\d+)", toolkit)[1]
    assert release == lock.TORCH_CUDA
    assert (release.split(".")[0], lock.MIN_DRIVER) == ("13", 580)


def test_provisioned_driver_runs_what_is_locked():
    """The branch of the driver that a box gets, if its configuration is left as it is."""
    script = ". provisioning/tank.conf && echo $DRIVER $DRIVER_BRANCH"
    driver, branch = command("bash", "-c", script, cwd=ROOT).stdout.split()
    assert driver == "vendor"
    assert int(branch) >= lock.MIN_DRIVER
