"""Which numbers of environments, workers and batches go together, and what is said if not."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import APIUsageError, EnvironmentSetupError, SpaceError, WorkerError
from pufferlib.vector import sizes
from pufferlib.vector.sizes import Sizes, available_cores


@pytest.fixture
def cores(monkeypatch):
    """A function that sets how many cores this process may use."""

    def use(n):
        monkeypatch.setattr(sizes, "available_cores", lambda: n)

    return use


@pytest.mark.parametrize(
    ("num_envs", "batch_size", "cores_there", "workers"),
    [
        (8, None, 4, 4),
        (6, None, 4, 3),
        (7, None, 4, 1),
        (7, None, 64, 7),
        (8, 2, 2, 4),  # smaller batches need more workers than there are cores
        (8, 4, 2, 2),
        (12, 6, 5, 4),
    ],
)
def test_auto_is_the_most_that_divide_and_have_a_core_each(
    cores, num_envs, batch_size, cores_there, workers
):
    cores(cores_there)
    for auto in ("auto", None):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Sizes.parallel(num_envs, auto, batch_size, True).num_workers == workers


def test_six_environments_on_four_workers_names_the_nearest():
    message = "num_envs=6 must be a multiple of num_workers=4; the nearest num_workers are 3 and 6"
    with pytest.raises(APIUsageError, match=message):
        vector.make(toys.make_draw, num_envs=6, num_workers=4, backend="multiprocessing")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            (8, 4, 3, False),
            "batch_size=3 must be a multiple of the 2 environments.*nearest batch sizes.* 2 and 4",
        ),
        (
            (8, 4, 6, True),
            "num_envs=8 to be a multiple of batch_size=6; the nearest batch sizes are 4 and 8",
        ),
        ((8, 4, 9, True), "batch_size: expected an int from 1 to num_envs=8, got 9"),
        ((8, 4, 0, True), "batch_size: expected an int from 1 to num_envs=8, got 0"),
        ((8, 9, None, True), "num_workers: expected 'auto' or an int from 1 to num_envs=8, got 9"),
        ((8, 0, None, True), "got 0"),
        ((8, "many", None, True), "got 'many'"),
        ((8, 2.0, None, True), "got 2.0"),
    ],
)
def test_numbers_that_do_not_go_together(cores, numbers, message):
    cores(64)
    with pytest.raises(APIUsageError, match=message):
        Sizes.parallel(*numbers)


def test_gathered_batches_need_not_divide_the_pool(cores):
    cores(64)
    assert Sizes.parallel(8, 4, 6, False).workers_per_batch == 3


def test_a_serial_pool_needs_equal_batches():
    with pytest.raises(APIUsageError, match="a Serial pool needs num_envs=4.*are 2 and 4"):
        vector.make(toys.make_draw, num_envs=4, batch_size=3)


def test_more_workers_than_cores_warns_once_where_make_was_called_and_works(cores):
    cores(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        vecenvs = [
            vector.make(toys.make_draw, num_envs=4, num_workers=4, backend="multiprocessing")
            for _ in range(2)
        ]
    assert [w.filename for w in caught] == [__file__]
    assert "num_workers=4 is more than the 2 cores" in str(caught[0].message)
    for vecenv in vecenvs:
        with vecenv:
            vecenv.reset()
            vecenv.step(np.zeros(4, np.int64))


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "200000 100000\n"}, 2.0),
        ({"cpu.max": "50000 100000\n"}, 0.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_cgroup_quota(tmp_path, files, quota, monkeypatch):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert sizes.cgroup_quota(tmp_path) == quota
    monkeypatch.setattr(sizes, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert available_cores() == (64 if quota is None else max(1, int(quota)))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_is_honoured():
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from pufferlib.vector.sizes import available_cores; print(available_cores())"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert result.stdout == b"1\n"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"backend": "threads"},
            r"backend: expected one of \['serial', 'multiprocessing', 'ray'\]",
        ),
        ({"backend": dict}, "backend: expected Serial, Multiprocessing or Ray"),
        ({"num_envs": 0}, "num_envs: expected an int of at least 1, got 0"),
        ({"num_envs": True}, "num_envs: expected an int of at least 1, got True"),
        ({"env_args": "name"}, "env_args: expected a list or tuple, got str"),
        ({"env_kwargs": [1]}, "env_kwargs: expected a dict, got list"),
    ],
)
def test_arguments_that_cannot_work(kwargs, message):
    with pytest.raises(APIUsageError, match=message):
        vector.make(toys.make_draw, **kwargs)


def test_a_backend_whose_package_is_missing_names_the_remedy(monkeypatch):
    monkeypatch.delitem(sys.modules, "pufferlib.vector.ray", raising=False)
    monkeypatch.setitem(sys.modules, "pufferlib.vector.ray_actors", None)
    message = r"backend 'ray' cannot be imported: .*pip install 'pufferlib\[ray\]'"
    with pytest.raises(EnvironmentSetupError, match=message):
        vector.make(toys.make_draw, backend="ray")
    with pytest.raises(EnvironmentSetupError, match=message):
        vector.Ray  # noqa: B018


def test_an_environment_in_place_of_its_creator_is_explained():
    with pytest.raises(APIUsageError, match="pass the function itself, not an environment"):
        vector.make(toys.make_draw())


def test_lists_of_creators_need_lists_of_arguments():
    creators = [toys.Draw] * 3
    with pytest.raises(APIUsageError, match="creators: expected a list of num_envs=2 entries"):
        vector.make(creators, num_envs=2)
    with pytest.raises(APIUsageError, match="env_kwargs: expected a list of num_envs=3"):
        vector.make(creators, env_kwargs={"name": "x"}, num_envs=3)


def test_each_creator_gets_its_arguments(build):
    vecenv = build([toys.make_draw] * 4, env_kwargs=[{"name": str(i)} for i in range(4)])
    assert vecenv.get_attr("name") == ["0", "1", "2", "3"]
    vecenv = build(toys.make_emulated, env_args=[toys.Draw], env_kwargs={"name": "all"})
    assert vecenv.get_attr("name") == ["all"] * 4


def test_an_unwrapped_environment_is_refused_with_the_remedy(build):
    # 2 is the first of another worker, which Ray may hear of before.
    with pytest.raises(
        APIUsageError, match="environment [02]: expected a PufferEnv.*got Draw; return"
    ):
        build(toys.Draw)


def test_unlike_environments_are_refused(build):
    creators = [toys.make_draw, toys.make_draw, toys.make_draw, toys.make_nested]
    with pytest.raises(
        APIUsageError, match="environment 3: expected observation_space.*must be al"
    ):
        build(creators)


def test_a_space_without_fixed_size_is_refused_from_the_constructor(build):
    class Texts(toys.Draw):
        from gymnasium.spaces import Text

        observation_space = Text(5)

    with pytest.raises(WorkerError, match="environment [02].*SpaceError in its constructor"):
        build(lambda: toys.make_emulated(Texts))
    with pytest.raises(SpaceError):
        toys.make_emulated(Texts)
