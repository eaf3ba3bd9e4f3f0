"""Fork, forkserver, spawn; creators that do not pickle by themselves; scripts without a guard."""

import multiprocessing
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import vector_toys as toys

from pufferlib import vector
from pufferlib.exceptions import APIUsageError
from pufferlib.testing import check_vecenv, require_equal, rollout

HERE = str(Path(__file__).parent)


def run_script(text, path, timeout=60):
    """Run a script in a process of its own; its result."""
    path.write_text(f"import sys; sys.path.insert(0, {HERE!r})\n" + textwrap.dedent(text))
    return subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=timeout
    )


def parallel(creator, context, **kwargs):
    return toys.make(creator, "sync", context=context, **kwargs)


@pytest.mark.parametrize("context", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_closures_over_local_classes_work(context):
    """Report O05."""

    class Local(toys.Draw):
        def observe(self, action):
            assert threading.current_thread() is threading.main_thread()
            return super().observe(action) + offset

    offset = 10
    creator = lambda: toys.make_emulated(Local)  # noqa: E731
    expected = rollout(vector.make(creator, num_envs=4), 20)
    with parallel(creator, context) as vecenv:
        require_equal(expected, rollout(vecenv, 20))
        assert vecenv.get_attr("name") == ["draw"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", toys.KINDS)
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_the_contract_holds_under_every_start_method(context, kind):
    check_vecenv(parallel(toys.KINDS[kind], context))


@pytest.mark.parametrize("context", ["fork", multiprocessing.get_context("fork")])
def test_the_start_method_may_be_a_name_or_a_context(context):
    with parallel(toys.make_draw, context) as vecenv:
        vecenv.reset()


@pytest.mark.slow
def test_the_programs_own_start_method_is_respected(tmp_path):
    result = run_script(
        """
        import multiprocessing
        import vector_toys as toys
        if __name__ == "__main__":
            multiprocessing.set_start_method("spawn")
            with toys.make(lambda: toys.make_draw(), "sync", num_workers=1) as vecenv:
                vecenv.reset()
                (worker,) = multiprocessing.active_children()
                print(type(worker).__name__, vecenv.render())
        """,
        tmp_path / "script.py",
    )
    assert result.stdout == "SpawnProcess draw at 0\n", result.stderr


def test_fork_is_the_default_on_linux():
    if sys.platform != "linux":
        pytest.skip("spawn elsewhere")
    with toys.make(toys.make_draw, "sync"):
        names = {type(worker).__name__ for worker in multiprocessing.active_children()}
    assert names == {"ForkProcess"}


def kinds_of_workers():
    return {type(worker).__name__ for worker in multiprocessing.active_children()}


def test_a_creator_may_demand_a_start_method():
    with toys.make(
        toys.make_choosy, "sync", num_workers=1, env_kwargs={"cls": toys.Draw}
    ) as vecenv:
        vecenv.reset()
        assert kinds_of_workers() == {"SpawnProcess"}


@pytest.mark.parametrize("context", ["fork", multiprocessing.get_context("fork")])
def test_another_start_method_than_the_creator_demands_is_refused(context):
    message = "context: expected 'spawn', the start_method that the environments' .* got 'fork'"
    with pytest.raises(APIUsageError, match=message):
        parallel(toys.make_choosy, context)


def test_creators_that_demand_unlike_start_methods_are_refused():
    def other():
        return toys.make_choosy()

    other.start_method = "forkserver"
    message = r"demand unlike start methods, \['forkserver', 'spawn'\]"
    with pytest.raises(APIUsageError, match=message):
        parallel([toys.make_choosy, toys.make_choosy, other, other], None)


def test_no_process_starts_in_serial_whatever_is_demanded():
    with vector.make(toys.make_choosy) as vecenv:
        vecenv.reset()
        assert kinds_of_workers() == set()


@pytest.mark.slow
def test_a_missing_main_guard_gives_one_clear_sentence(tmp_path):
    result = run_script(
        """
        import vector_toys as toys
        vecenv = toys.make(toys.make_draw, "sync", num_workers=1, context="spawn")
        vecenv.reset()
        """,
        tmp_path / "script.py",
    )
    assert result.returncode == 1
    assert "put the script's code under `if __name__ == '__main__':`" in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert "worker 0 (environments 0 to 3) died while making its environments" in last


def test_a_creator_that_cannot_travel_is_explained():
    lock = threading.Lock()
    message = "creator cannot be pickled for another process: .*lock.*at module level, or use"
    with pytest.raises(APIUsageError, match=message):
        parallel(lambda: toys.make_draw(name=lock), "spawn")
    with parallel(lambda: toys.make_draw(name=str(lock)), "fork") as vecenv:
        vecenv.reset()


@pytest.mark.slow
def test_spawned_workers_do_not_load_torch(tmp_path):
    """A fresh interpreter per worker: it must start fast and stay small."""
    result = run_script(
        """
        import sys
        import vector_toys as toys
        class Modules(toys.Draw):
            def has(self, name):
                import sys
                return name in sys.modules
        if __name__ == "__main__":
            creator = lambda: toys.make_emulated(Modules)
            with toys.make(creator, "sync", num_workers=1, context="spawn") as vecenv:
                print(vecenv.call("has", "torch", indices=[0]), "torch" in sys.modules)
        """,
        tmp_path / "script.py",
    )
    assert result.stdout == "[False] False\n", result.stderr


def test_native_libraries_get_one_thread_per_worker(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    class Threads(toys.Draw):
        def threads(self):
            import os

            return os.environ["OMP_NUM_THREADS"]

    with toys.make(lambda: toys.make_emulated(Threads), "sync") as vecenv:
        assert vecenv.call("threads") == ["1"] * 4
        vecenv.reset()
        vecenv.step(np.zeros(4, np.int64))
