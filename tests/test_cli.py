"""`puffer`: what it accepts, what it prints, and how a training ends."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
import torch

import pufferlib
from pufferlib import clean_pufferl
from pufferlib.cli import COMMANDS, main
from pufferlib.emulation import GymnasiumPufferEnv
from pufferlib.environments import ocean
from pufferlib.exceptions import NonFiniteError
from pufferlib.trainer import checkpoint

ROOT = Path(pufferlib.__file__).parent.parent
SHORT = (
    *("--train.total-timesteps", "4096", "--train.torch-threads", "1", "--train.loggers", "none"),
    *("--vec.backend", "serial", "--vec.num-envs", "16"),
)


class Broken(gymnasium.Env):
    """Fails on its hundredth step: stands in for a user's environment, in the place of Squared."""

    observation_space = gymnasium.spaces.Box(-1, 1, (7, 7), np.int8)
    action_space = gymnasium.spaces.Discrete(8)

    def __init__(self, failure):
        self.failure = failure
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros((7, 7), np.int8), {}

    def step(self, action):
        self.steps += 1
        failure = self.failure if self.steps == 100 else None
        if failure == "hang":
            os.write(1, b"hanging\n")  # one write: several workers share the pipe
            time.sleep(3600)
        if failure == "raise":
            raise ZeroDivisionError("the dice are gone")
        reward = float("nan") if failure == "nan" else 0.0
        return np.zeros((7, 7), np.int8), reward, self.steps % 3 == 0, False, {}


def broken_creator(failure):
    return lambda name: lambda **kwargs: GymnasiumPufferEnv(env=Broken(failure))


# `puffer` in a process of its own, with `Broken` in the place of Squared.
HANG = "\n".join(
    [
        "import os, sys, time, gymnasium, numpy as np",
        "from pufferlib.cli import main",
        "from pufferlib.emulation import GymnasiumPufferEnv",
        "from pufferlib.environments import ocean",
        inspect.getsource(Broken),
        inspect.getsource(broken_creator),
        "ocean.env_creator = broken_creator('hang')",
        "sys.exit(main())",
    ]
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory; runs go to its `runs`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(*command, cwd):
    """A process in a group of its own, as a shell would start it."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process, within):
    """Exit code and output; the process and what it started are gone afterwards."""
    children = psutil.Process(process.pid).children(recursive=True)
    try:
        process.wait(timeout=within)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(children, timeout=6)
    assert not alive
    return process.returncode, *process.communicate()


def only_checkpoint(directory):
    (path,) = directory.glob("runs/*/checkpoints/latest.pt")
    content = checkpoint.read(path)
    assert all(weight.isfinite().all() for weight in content["policy"].values())
    return content


# -- what is printed ---------------------------------------------------------------------------


def test_version_help_and_mistakes(capsys):
    assert main(["--version"]) == 0
    assert pufferlib.__version__ in capsys.readouterr().out
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert [name for name in COMMANDS if f"\n  {name} " not in text] == []
    assert main([]) == 2
    assert main(["trian"]) == 2
    assert "did you mean puffer train?" in capsys.readouterr().err


def test_train_help_shows_defaults_of_this_environment(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "squared", "--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    for option in (
        "--train.learning-rate",
        "--env.num-targets",
        "--policy.hidden-size",
        "--resume",
    ):
        assert option in text
    assert "--env-name" not in text


@pytest.mark.parametrize("command", ["train", "eval"])
def test_missing_environment_lists_the_names(command, capsys):
    assert main([command, "--train.seed", "1"]) == 2
    assert "cartpole" in capsys.readouterr().err
    assert main([command, "sqared"]) == 2
    assert "did you mean 'squared'?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0


def resolved(capsys, *options):
    assert main(["train", "squared", "--print-config", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_print_config_is_json_and_leaves_no_trace(here, capsys):
    config = resolved(capsys)
    assert config["env_name"] == "squared"
    assert config["score_key"] == "score"
    assert config["policy"]["hidden_size"] == 128
    assert list(here.iterdir()) == []


def test_command_line_goes_over_the_file_over_the_packaged_one(here, capsys):
    packaged = resolved(capsys)
    Path("my.toml").write_text(
        "[train]\nlearning_rate = 0.5\ngamma = 0.5\n[env]\nnum_targets = 2\n"
    )
    config = resolved(capsys, "--config", "my.toml", "--train.gamma", "0.25")
    assert config["train"]["learning_rate"] == 0.5
    assert config["train"]["gamma"] == 0.25
    assert config["env"]["num_targets"] == 2
    assert config["train"]["total_timesteps"] == packaged["train"]["total_timesteps"]
    Path("my.toml").write_text("[train]\nlearning_rat = 0.5\n")
    assert main(["train", "squared", "--config=my.toml"]) == 2
    assert "my.toml: unknown key 'train.learning_rat'; did you mean train.learning_rate?" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "group", "key", "value"),
    [
        (["--train.learning-rate", "3e-4"], "train", "learning_rate", 3e-4),
        (["--train.learning_rate=3e-4"], "train", "learning_rate", 3e-4),
        (["--train.total-timesteps", "1e6"], "train", "total_timesteps", 1_000_000),
        (["--train.anneal-lr", "False"], "train", "anneal_lr", False),
        (["--train.anneal-lr", "0"], "train", "anneal_lr", False),
        (["--train.no-anneal-lr"], "train", "anneal_lr", False),
        (["--train.no_anneal_lr"], "train", "anneal_lr", False),
        (["--train.compile"], "train", "compile", True),
        (["--train.compile", "true"], "train", "compile", True),
        (["--train.compile=yes"], "train", "compile", True),
        (["--train.target-kl", "0.1"], "train", "target_kl", 0.1),
        (["--train.target-kl", "0.1", "--train.target-kl", "None"], "train", "target_kl", None),
        (["--vec.num-workers", "2"], "vec", "num_workers", 2),
        (["--vec.backend", "serial"], "vec", "backend", "serial"),
        (["--vec.timeout", "2.5"], "vec", "timeout", 2.5),
        (["--vec.restart", "3"], "vec", "restart", 3),
        (["--env.num-targets", "3"], "env", "num_targets", 3),
        (["--policy.hidden-size", "64"], "policy", "hidden_size", 64),
        (["--rnn.num-layers", "2"], "rnn", "num_layers", 2),
    ],
)
def test_spellings(words, group, key, value, capsys):
    found = resolved(capsys, *words)[group][key]
    assert found == value
    assert type(found) is type(value)


def test_flag_before_other_options(capsys):
    config = resolved(capsys, "--use-rnn", "--train.seed", "7")
    assert config["use_rnn"] is True
    assert config["train"]["seed"] == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--train.learning-rat", "1"], "did you mean --train.learning-rate?"),
        (["--trian.seed", "1"], "did you mean --train.seed?"),
        (["--env.num-target", "1"], "did you mean --env.num-targets?"),
        (["--train.no-seed"], "unknown option --train.no-seed"),
        (["--train.total-timesteps", "1.5"], "expected int, got '1.5'"),
        (["--train.compile", "maybe"], "maybe"),
        (["--vec.backend", "rya"], "expected 'serial'/'multiprocessing'/'ray', got"),
        (["--train.gamma"], "Missing value"),
        (["--train.gamma", "2"], "expected 0 <= gamma <= 1, got 2"),
        (["--config", "nowhere.toml"], "nowhere.toml: No such file"),
    ],
)
def test_mistakes_exit_with_2_and_say_what_is_right(words, message, capsys):
    try:
        code = main(["train", "squared", *words])
    except SystemExit as stopped:  # values are checked by tyro, which exits
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_sizes_that_do_not_fit_name_both_numbers(here, capsys):
    assert main(["train", "squared", *SHORT, "--train.batch-size", "100"]) == 2
    assert "train.batch_size (100) must be a multiple of train.bptt_horizon (16)" in (
        capsys.readouterr().err
    )


# -- training and evaluation -------------------------------------------------------------------


@pytest.mark.smoke
def test_train_then_resume_then_eval(here, capsys):
    assert main(["train", "squared", *SHORT, "--train.loggers", "tensorboard"]) == 0
    text = capsys.readouterr().out
    for part in ("steps/s", "parameters", "score at the start", "score at the end", "episodes"):
        assert part in text
    assert "puffer eval squared --checkpoint latest" in text
    (run_dir,) = here.glob("runs/squared-*")
    assert json.loads((run_dir / "config.json").read_text())["train"]["total_timesteps"] == 4096
    assert list(run_dir.glob("events.out.tfevents*"))
    before = only_checkpoint(here)
    assert before["global_step"] >= 4096

    resume = ["--resume", "latest", "--train.total-timesteps", "8192"]
    assert main(["train", "squared", *resume]) == 0
    after = only_checkpoint(here)  # the same run
    assert after["global_step"] >= 8192
    assert json.loads(after["config"])["vec"]["num_envs"] == 16  # as the run was started

    capsys.readouterr()
    assert main(["eval", "squared", "--episodes", "5", "--greedy"]) == 0
    assert "95% interval" in capsys.readouterr().out
    options = ["--checkpoint", run_dir.name, "--episodes", "2", "--save-video", "film.mp4"]
    assert main(["eval", "squared", *options, "--render", "--fps", "1000"]) == 0
    assert Path("film.mp4").stat().st_size > 0
    assert "\x1b[H" in capsys.readouterr().out


def test_recurrent_training_and_time_limit(here, capsys):
    options = ["--use-rnn", "--train.total-timesteps", "1e9", "--train.max-seconds", "1"]
    assert main(["train", "squared", *SHORT, *options]) == 0
    content = only_checkpoint(here)
    assert 0 < content["global_step"] < 1e9
    assert any("recurrent" in name for name in content["policy"])
    assert main(["eval", "squared", "--episodes", "4"]) == 0


def test_eval_of_random_actions_needs_no_checkpoint(here, capsys):
    assert main(["eval", "squared", "--checkpoint", "random", "--episodes", "3"]) == 0
    assert "random actions" in capsys.readouterr().out


def test_checkpoints_that_do_not_fit_are_refused(here, capsys):
    assert main(["eval", "squared"]) == 1
    assert "puffer train squared" in capsys.readouterr().err
    assert main(["train", "squared", *SHORT]) == 0
    (run_dir,) = here.glob("runs/squared-*")
    path = run_dir / "checkpoints" / "latest.pt"
    capsys.readouterr()
    assert main(["eval", "cartpole", "--checkpoint", str(path)]) == 1
    assert "was trained on squared, not on cartpole" in capsys.readouterr().err
    assert main(["eval", "squared", "--checkpoint", run_dir.name[:-1]]) == 1
    assert f"did you mean {run_dir.name}?" in capsys.readouterr().err
    content = torch.load(path, weights_only=True)
    content["spaces"]["action"] = "Discrete(9)"
    torch.save(content, "changed.pt")
    assert main(["eval", "squared", "--checkpoint", "changed.pt"]) == 1
    assert "action space Discrete(9)" in capsys.readouterr().err


def test_latest_is_the_newest_of_this_environment(here, capsys):
    for name, age in [
        ("squared-20250101T000000-0000", 300),
        ("squared-20250102T000000-0000", 200),
        ("squared-big-20250103T000000-0000", 0),
        ("cartpole-20250103T000000-0000", 100),
    ]:
        path = here / "runs" / name / "checkpoints" / "latest.pt"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"not a checkpoint")
        os.utime(path, (time.time() - age,) * 2)
    (here / "runs" / "squared-20250104T000000-0000").mkdir()
    assert main(["eval", "squared"]) == 1
    assert "squared-20250102T000000-0000" in capsys.readouterr().err


def test_a_run_is_resumed_from_where_the_config_file_keeps_runs(here, capsys):
    path = here / "kept" / "squared-20250101T000000-0000" / "checkpoints" / "latest.pt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a checkpoint")
    Path("my.toml").write_text("[train]\ndata_dir = 'kept'\n")
    resume = ["train", "squared", "--resume", "latest"]
    assert main([*resume, "--config", "my.toml"]) == 1
    assert "kept/squared-20250101T000000-0000/checkpoints/latest.pt" in capsys.readouterr().err
    assert main([*resume, "--config", "my.toml", "--train.data-dir", "elsewhere"]) == 1
    assert "no checkpoint of squared in" in capsys.readouterr().err


# -- how it ends -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "code", "backend"),
    [(signal.SIGINT, 130, "multiprocessing"), (signal.SIGTERM, 143, "serial")],
)
def test_signal_while_an_environment_hangs(tmp_path, signum, code, backend):
    process = start(
        *("-c", HANG, "train", "squared", "--train.torch-threads", "1"),
        *("--train.total-timesteps", "1e9", "--vec.backend", backend, "--vec.num-envs", "2"),
        cwd=tmp_path,
    )
    assert "hanging\n" in process.stdout  # reads up to that line
    os.kill(process.pid, signum)
    exit_code, output, errors = finish(process, within=10)
    assert exit_code == code, errors
    assert f"stopped by {signum.name}" in output
    assert "Traceback" not in errors
    assert only_checkpoint(tmp_path)["env_name"] == "squared"


@pytest.mark.slow
def test_ctrl_c_reaches_the_whole_group_while_training(tmp_path):
    process = start(
        *("-m", "pufferlib", "train", "squared", "--train.total-timesteps", "1e9"),
        *("--train.torch-threads", "1", "--vec.backend", "multiprocessing", "--vec.num-envs", "4"),
        cwd=tmp_path,
    )
    assert "steps/s" in process.stdout.readline()  # the first line of the dashboard
    os.killpg(process.pid, signal.SIGINT)
    exit_code, output, errors = finish(process, within=10)
    assert exit_code == 130, errors
    assert "Traceback" not in errors
    assert "score at the end" in output
    assert only_checkpoint(tmp_path)["global_step"] > 0


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
@pytest.mark.parametrize(
    ("failure", "message"),
    [("raise", "ZeroDivisionError: the dice are gone"), ("nan", "rewards: expected finite")],
)
def test_failure_exits_with_1_and_keeps_a_checkpoint(
    failure, message, backend, here, monkeypatch, capsys
):
    monkeypatch.setattr(ocean, "env_creator", broken_creator(failure))
    code = main(["train", "squared", *SHORT, "--vec.backend", backend, "--vec.num-envs", "2"])
    text = capsys.readouterr()
    assert code == 1
    assert text.err.startswith("puffer: error:")
    assert message in text.err
    assert "checkpoint of update" in text.out
    assert only_checkpoint(here)["env_name"] == "squared"


def test_weights_that_are_not_finite_are_not_saved(here, monkeypatch, capsys):
    def explode(trainer):
        with torch.no_grad():
            next(trainer.policy.parameters()).fill_(float("inf"))
        raise NonFiniteError("too much")

    monkeypatch.setattr(clean_pufferl, "train", explode)
    assert main(["train", "squared", *SHORT]) == 1
    text = capsys.readouterr()
    assert "too much" in text.err
    assert "no checkpoint written: the weights are not finite" in text.out
    assert not list(here.glob("runs/*/checkpoints/*"))


def test_unexpected_errors_are_raised_after_a_checkpoint(here, monkeypatch):
    def fail(trainer):
        raise MemoryError("enough")

    monkeypatch.setattr(clean_pufferl, "train", fail)
    with pytest.raises(MemoryError, match="enough"):
        main(["train", "squared", *SHORT])
    assert only_checkpoint(here)["epoch"] == 0
