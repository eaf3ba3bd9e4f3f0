"""`torchrun -m pufferlib train`: two real processes, from the first message to the last."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import pufferlib
from pufferlib.trainer import checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(pufferlib.__file__).parent.parent
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
OPTIONS = (
    *("--train.device", "cpu", "--train.bptt-horizon", "8", "--train.batch-size", "128"),
    *("--train.checkpoint-interval", "5", "--vec.num-envs", "8", "--train.loggers", "none"),
)

# `puffer` with an environment that fails in the second process only.
PROGRAM = """
import os, signal, sys, gymnasium, numpy as np
from pufferlib.cli import main
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import ocean

class Failing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (7, 7), np.int8)
    action_space = gymnasium.spaces.Discrete(8)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((7, 7), np.int8), {}

    def step(self, action):
        self.steps += 1
        reward = 0.0
        if self.steps == 100 and os.environ["RANK"] == "1":
            os.write(1, b"failing\\n")
            if sys.argv[1] == "raise":
                raise ZeroDivisionError("the dice are gone")
            if sys.argv[1] == "kill":
                os.kill(trainer, signal.SIGKILL)
            reward = float("nan")
        return np.zeros((7, 7), np.int8), reward, self.steps % 5 == 0, False, {}

trainer = os.getpid()
ocean.env_creator = lambda name: lambda **kwargs: GymnasiumPufferEnv(env=Failing())
sys.exit(main(sys.argv[2:]))
"""

# `puffer`, and how many threads its process has when Python ends.
THREADS_AT_THE_END = """
import atexit, sys, psutil
from pufferlib.cli import main

atexit.register(lambda: print("threads at the end:", psutil.Process().num_threads(), flush=True))
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def started(folder, *words, processes=2):
    """A running `torchrun`, and afterwards nothing of it."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    variables = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [*TORCHRUN, "--standalone", *words],
            cwd=folder,
            env=os.environ | variables | {"COLUMNS": "100"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
        process.wait()


def wait_for(folder, text, process, within=300):
    end = time.monotonic() + within
    while text not in (folder / "output").read_text():
        assert process.poll() is None, (folder / "output").read_text()
        assert time.monotonic() < end, (folder / "output").read_text()
        time.sleep(0.05)


def finish(folder, process, within):
    """Exit code and output; no process that it started is left six seconds later."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.wait(within)
    _, alive = psutil.wait_procs(children, timeout=6)
    assert not alive
    return process.returncode, (folder / "output").read_text()


def only_checkpoint(folder):
    (path,) = folder.glob("runs/*/checkpoints/latest.pt")
    return checkpoint.read(path)


def test_two_processes_train_one_policy_and_go_on_later(tmp_path):
    train = ("-m", "pufferlib", "train", "squared", *OPTIONS, "--vec.num-workers", "2")
    with started(tmp_path, *train, "--train.total-timesteps", "1000") as process:
        code, output = finish(tmp_path, process, within=300)
    assert code == 0, output
    first = only_checkpoint(tmp_path)
    # A batch has at most 128 steps, those of both; the last row of an episode is none.
    assert 1000 <= first["global_step"] < 1128
    assert first["epoch"] * 64 < first["global_step"] <= first["epoch"] * 128
    assert output.count("watch it") == 1, output
    with started(
        tmp_path, *train, "--train.total-timesteps", "1500", "--resume", "latest"
    ) as process:
        code, output = finish(tmp_path, process, within=300)
    assert code == 0, output
    assert output.count(f"resumed at update {first['epoch']:,}") == 1, output
    assert "environments start new episodes: the run has 2 processes" in output
    assert only_checkpoint(tmp_path)["epoch"] > first["epoch"]


# A thread that is left may let go of a tensor while Python ends, which aborts the process.
def test_no_thread_of_the_group_outlives_it(tmp_path):
    (tmp_path / "program.py").write_text(THREADS_AT_THE_END)
    train = ("train", "squared", *OPTIONS, "--train.total-timesteps", "500")
    with started(tmp_path, "program.py", *train) as process:
        code, output = finish(tmp_path, process, within=300)
    assert code == 0, output
    assert output.count("threads at the end: 1\n") == 2, output


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("raise", ["ZeroDivisionError: the dice are gone", "in step", "environment 0"]),
        ("kill", ["Signal 9 (SIGKILL)"]),
        pytest.param(
            "nan",
            ["rewards: expected finite numbers, got nan for agent"],
            marks=pytest.mark.bench,  # one more of the first kind
        ),
    ],
)
def test_a_process_that_fails_ends_all_with_its_message(failure, said, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    train = ("train", "squared", *OPTIONS)
    with started(tmp_path, "program.py", failure, *train) as process:
        wait_for(tmp_path, "failing", process)
        begun = time.monotonic()
        code, output = finish(tmp_path, process, within=60)
    assert code == 1, output
    for text in said:
        assert text in output
    # What torchrun names as the cause is the process that failed first.
    assert "rank      : 1" in output.partition("Root Cause")[2], output
    print(f"{failure}: {time.monotonic() - begun:.1f} s")
    weights = only_checkpoint(tmp_path)["policy"].values()
    assert all(weight.isfinite().all() for weight in weights)


def test_ctrl_c_writes_one_checkpoint_and_ends_all(tmp_path):
    train = ("-m", "pufferlib", "train", "squared", *OPTIONS)
    with started(tmp_path, *train) as process:
        end = time.monotonic() + 300
        while not list(tmp_path.glob("runs/*/checkpoints/latest.pt")):
            assert process.poll() is None, (tmp_path / "output").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        code, output = finish(tmp_path, process, within=60)
    assert code != 0
    assert output.count("stopped by SIGINT") == 1, output
    assert only_checkpoint(tmp_path)["epoch"] >= 5


@pytest.mark.bench  # that they are refused is tested without processes in trainer/test_distributed
def test_environments_that_do_not_divide_are_refused(tmp_path):
    train = ("-m", "pufferlib", "train", "squared", *OPTIONS, "--vec.num-envs", "7")
    with started(tmp_path, *train) as process:
        code, output = finish(tmp_path, process, within=300)
    assert code == 1
    expected = "vec.num_envs (7) must be a multiple of the number of processes (2); nearest: 6 or 8"
    assert expected in output
    assert not list(tmp_path.glob("runs/*/checkpoints"))
