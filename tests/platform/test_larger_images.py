"""Images that take too long for every change: CUDA, `common`, the hard environments.

By hand, all or one of them; the numbers go into benchmarks/RESULTS.md:

    pytest -m bench -s tests/platform/test_larger_images.py -k cuda
"""

import json
import re

import pytest
from engine_tools import ROOT, STAGES, bake, bake_stages, command

from pufferlib import lock

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

GIGABYTE = 10**9
KINDS = {
    # name: variant, ENVS, most GB of the tank
    "cuda": ("cuda", "nethack", 6.5),
    "common": ("cpu", "common", 6.0),
    "hard": ("cpu", "mario,microrts,neural_mmo,procgen", 6.0),
}


def image(stage, kind):
    """A name of its own: images that a developer built stay what they are."""
    return f"puffertank-test/{stage}:{kind}"


def inside(name, *arguments, flags=()):
    done = command(
        "docker", "run", "--rm", "--network=none", "--shm-size=1g", *flags, name, *arguments,
        timeout=900,
    )  # fmt: skip
    assert "WARNING" not in done.stdout + done.stderr
    return done


def check(stage, kind):
    """Run the shipped checks of a stage in its image; returns what passed, parents first."""
    flags = ["-v", f"{ROOT}/docker/checks:/checks:ro", "--entrypoint", "bash"]
    done = inside(image(stage, kind), f"/checks/{stage}.sh", flags=flags)
    return [line for line in done.stdout.splitlines() if line.endswith(": ok")]


@pytest.fixture(scope="module", params=KINDS)
def kind(request, checkout):
    """Build the three stages of a kind; they are removed afterwards, the cache stays."""
    variant, envs, _ = KINDS[request.param]
    names = [image(stage, request.param) for stage in STAGES]
    name = image("{}", request.param)
    built = bake_stages(checkout, name, timeout=3600, TORCH_VARIANT=variant, ENVS=envs)
    assert re.findall(r".*(?:WARNING|\bW: ).*", built.log) == []
    print(f"\n{request.param}: built in {built.seconds:.0f} s")
    yield request.param
    command("docker", "rmi", *names)


def test_sizes(kind):
    sizes = {}
    for stage in STAGES:
        (found,) = json.loads(command("docker", "image", "inspect", image(stage, kind)).stdout)
        sizes[stage] = found["Size"] / GIGABYTE
    print(f"{kind}: " + ", ".join(f"{stage} {size:.2f} GB" for stage, size in sizes.items()))
    assert sizes["tank"] <= KINDS[kind][2]


def test_checks_pass(kind):
    assert check("tank", kind) == ["base: ok", "deps: ok", "tank: ok"]


def test_smoke_tests_pass_inside(kind):
    done = inside(image("tank", kind), "pytest", "-q", "-m", "smoke", "-p", "no:cacheprovider")
    summary = re.search(r"(\d+) passed.*", done.stdout)
    print(f"{kind}: smoke tests: {summary[0]}")
    assert int(summary[1]) > 30
    assert "failed" not in summary[0]


ASK_TORCH = """
import json, torch
print(json.dumps([torch.__version__, torch.version.cuda, torch.cuda.get_arch_list()]))
"""


@pytest.mark.parametrize("kind", ["cuda"], indirect=True)
def test_torch_is_the_one_that_the_minimums_belong_to(kind):
    done = inside(image("base", kind), "python", "-c", ASK_TORCH)
    version, cuda, architectures = json.loads(done.stdout)
    print(f"torch {version}, CUDA {cuda}, {' '.join(architectures)}")
    assert version.partition("+")[0] == lock.TORCH
    assert cuda == lock.TORCH_CUDA
    oldest = min(int(name.removeprefix("sm_")) for name in architectures)
    assert divmod(oldest, 10) == lock.MIN_COMPUTE_CAPABILITY


@pytest.mark.parametrize("kind", ["cuda"], indirect=True)
def test_toolkit_compiles(kind, checkout):
    """CUDA_TOOLKIT=1, on top of the same torch; the check compiles and links a kernel."""
    name = image("base", "toolkit")
    variables = {"TORCH_VARIANT": "cuda", "CUDA_TOOLKIT": "1"}
    built = bake(checkout, "base", settings=[f"base.tags={name}"], timeout=3600, **variables)
    assert not built.ran("/tmp/install-torch")
    try:
        (found,) = json.loads(command("docker", "image", "inspect", name).stdout)
        print(f"base with the toolkit: {found['Size'] / GIGABYTE:.2f} GB")
        assert check("base", "toolkit") == ["base: ok"]
        version = inside(name, "bash", "-lc", "nvcc --version").stdout
        assert f"release {lock.TORCH_CUDA}," in version
    finally:
        command("docker", "rmi", name)
