"""The benchmarks of training: that they compare like with like, and what they make of numbers."""

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


class Countdown(gymnasium.Env):
    """Ends after `length` steps, each worth 1, and shows how many are left."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self.left = self.length
        return np.array([self.left], np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.array([self.left], np.float32), 1.0, self.left == 0, False, {}


def test_recorder_counts_the_steps_of_all_environments(load):
    curriculum = load("curriculum")
    episodes = curriculum.Episodes()
    settings = curriculum.Settings(total_timesteps=9)
    tasks = [
        curriculum.Task(title="t", make=lambda n=n: Countdown(n), settings=settings) for n in (2, 3)
    ]
    envs = [task.recorded(episodes) for task in tasks]
    for env in envs:
        env.reset()
    for _ in range(2):
        for env in envs:
            env.step(0)
    envs[1].step(0)
    assert episodes.steps == [3, 5]
    assert episodes.returns == [2.0, 3.0]
    assert episodes.total_steps == 5


def test_recorder_counts_frames_of_games_as_steps(load):
    curriculum = load("curriculum")
    episodes = curriculum.Episodes()
    env = curriculum.Recorder(Countdown(8), episodes, frame_skip=4)
    env.reset()
    for _ in range(8):
        env.step(0)
    assert episodes.steps == [2]


def test_curve_is_the_mean_of_each_hundredth(load):
    curve = load("learners").curve
    steps, returns = np.array([1, 10, 11, 1000]), np.array([1.0, 2.0, 4.0, 8.0])
    assert curve(steps, returns, 1000) == [[10, 1.0], [20, 3.0], [1000, 8.0]]


def test_cleanrl_gets_the_old_interface(load):
    """Observations only from reset, one flag for the end, a list of infos, reset in the step."""
    gym = load("cleanrl_gym").as_gym(lambda: Countdown(2))

    def thunk():
        env = gym.wrappers.RecordEpisodeStatistics(gym.make("any"))
        env.seed(3)
        return env

    envs = gym.vector.SyncVectorEnv([thunk, thunk])
    assert envs.reset().tolist() == [[2], [2]]
    envs.step(np.zeros(2, int))
    observations, rewards, dones, infos = envs.step(np.zeros(2, int))
    assert observations.tolist() == [[2], [2]]
    assert rewards.tolist() == [1, 1]
    assert dones.tolist() == [True, True]
    assert infos == [{}, {}]


def test_a_remembered_seed_serves_one_reset(load):
    seen = []

    class Seeded(Countdown):
        def reset(self, *, seed=None, options=None):
            seen.append(seed)
            return super().reset(seed=seed, options=options)

    env = load("cleanrl_gym").Seedable(Seeded(1))
    env.seed(7)
    env.reset()
    env.reset()
    assert seen == [7, None]


def test_our_network_is_cleanrls(load):
    """Two networks of 64 and 64 units: with biases 9,155 weights for four inputs, two actions."""

    class Spaces:
        single_observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        single_action_space = gymnasium.spaces.Discrete(2)

    network = load("networks").ActorCritic(Spaces)
    assert sum(weight.numel() for weight in network.parameters()) == 9155
    first, last = network.actor[0].weight, network.action_head.discrete.weight
    assert first.T.matmul(first).numpy(force=True) == pytest.approx(2 * np.eye(4), abs=1e-5)
    assert last.matmul(last.T).numpy(force=True) == pytest.approx(1e-4 * np.eye(2), abs=1e-8)


def write_runs(directory, learning, returns):
    for learner, values in returns.items():
        for seed, value in enumerate(values, 1):
            run = {"final_return": value, "wall_seconds": 10 * seed, "cpu_seconds": seed}
            file = learning.result_file(directory, "cartpole", learner, seed)
            file.write_text(json.dumps(run))


@pytest.mark.parametrize(("ours", "word"), [([80, 91], "pass"), ([80, 89], "FAIL")])
def test_verdict_compares_our_mean_with_the_peers_worst_seed(load, tmp_path, ours, word):
    learning = load("learning")
    write_runs(tmp_path, learning, {"pufferlib": ours, "CleanRL": [85.5, 100], "SB3": [99, 98]})
    rows = learning.rows(learning.read_results(tmp_path))
    assert [row[1] for row in rows] == ["pufferlib", "CleanRL", "SB3"]
    assert word in rows[0][-1]
    assert rows[1][2:] == ["85.5, 100", "92.75", "15", "2", ""]
    assert f"| {word} " in learning.as_markdown(learning.read_results(tmp_path))


def test_finished_runs_are_not_repeated(load, tmp_path, monkeypatch):
    learning = load("learning")
    write_runs(tmp_path, learning, {"pufferlib": [1, 2], "SB3": [1]})
    commands = []

    def run(command, **_):
        commands.append([str(part) for part in command[2:5]])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(learning.subprocess, "run", run)
    learning.train_missing(tmp_path, ["cartpole"], ["pufferlib", "SB3"], [1, 2])
    assert commands == [["SB3", "cartpole", "2"]]


def test_the_best_setting_of_each_contestant_counts(load):
    training = load("training")
    results = training.Results(
        loops={"breakout": {"SB3": {"a": 50.0, "b": 80.0}, "pufferlib": {"a": 60.0, "b": 88.0}}},
        bounds={"breakout": 100.0},
    )
    peers, bound = training.judged(results)
    assert (peers.reached, peers.passed) == (pytest.approx(1.1), True)
    assert (bound.reached, bound.wanted, bound.passed) == (0.88, 0.9, False)
    theirs, ours = training.rows(results)
    assert theirs[1:5] == ["SB3 (b)", "80", "1.00", "80%"]
    assert ours[5].splitlines() == [str(peers), str(bound)]


def test_speed_must_not_fall_as_agents_grow(load):
    training = load("training")
    results = training.Results(agents={64: 100.0, 256: 97.0, 1024: 90.0})
    assert [row.passed for row in training.judged(results)] == [True, False]


def test_native_rows_are_judged_by_bound_and_lstm(load):
    training = load("training")
    case = {"agents": 4096, "threads": 1}
    results = training.Results(
        native={
            "lstm": case | {"steps_per_second": 60_000.0, "bound": 80_000.0},
            "mingru": case | {"steps_per_second": 150_000.0, "bound": 200_000.0},
        }
    )
    reached = [(row.row, row.reached, row.passed) for row in training.judged(results)]
    assert reached == [
        ("native lstm", 0.75, False),
        ("native lstm", 0.8, False),
        ("native mingru", 2.5, True),
    ]


def test_markdown_has_no_colours(load):
    text = load("report").as_markdown(("a", "b"), [("1", "[green]pass[/] x\n[red]FAIL[/] y")])
    assert text == "| a | b |\n| --- | --- |\n| 1 | pass x; FAIL y |\n"


def test_pace_leaves_out_the_first_update(load, monkeypatch):
    loops = load("loops")
    monkeypatch.setattr(loops.time, "perf_counter", iter((10.0, 12.0, 14.0)).__next__)
    pace = loops.Pace(seconds=4)
    pace.mark(100)
    pace.mark(500)
    with pytest.raises(loops.Enough):
        pace.mark(900)
    assert pace.speed == 200


def test_gpu_benchmark_says_that_there_is_no_gpu(load, monkeypatch):
    gpu = load("gpu")
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit, match="no GPU: .* --device cpu"):
        gpu.main()


LONGEST_EPISODE = {"cartpole": 500, "pendulum": 200}


def run_script(script, *arguments):
    return subprocess.run([sys.executable, BENCHMARKS / script, *arguments], check=True)


@pytest.mark.bench  # it compiles for more than a minute
@pytest.mark.timeout(600)
def test_gpu_benchmark_runs_without_a_gpu(tmp_path):
    file = tmp_path / "gpu.json"
    flags = ["--device", "cpu", "--seconds", "0.1", "--agents", "16", "--json", file]
    run_script("gpu.py", *flags, "--envs", "squared", "--networks", "mlp")
    results = json.loads(file.read_text())["results"]
    assert len(results) == 8
    for row in results:
        if "graphs" in row["variant"]:
            assert row["failed"].startswith(
                "ConfigError: train.cuda_graphs: expected a CUDA device"
            )
        else:
            assert row["steps_per_second"] > 0


@pytest.mark.parametrize(
    "learner",
    [
        pytest.param("pufferlib", marks=pytest.mark.slow),
        pytest.param("SB3", marks=pytest.mark.slow),
        pytest.param("CleanRL", marks=pytest.mark.bench),  # installed by hand
    ],
)
@pytest.mark.parametrize("task", ["cartpole", "pendulum"])
def test_a_learner_leaves_its_run(tmp_path, learner, task):
    if learner == "CleanRL":
        pytest.importorskip("cleanrl", reason="see benchmarks/learning.py")
    file = tmp_path / "run.json"
    run_script("learners.py", learner, task, "1", "--steps", "2048", "--out", file)
    run = json.loads(file.read_text())
    assert run["settings"]["total_timesteps"] == 2048
    assert run["episodes"] > 5
    # The last point is where the last episode ended; four environments play episodes at once.
    assert 2048 - 4 * LONGEST_EPISODE[task] < run["curve"][-1][0] <= 2048


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["pufferlib", "SB3"])
def test_a_loop_is_measured(load, contestant):
    loops = load("loops")
    assert loops.steps_per_second(contestant, "cartpole", 0.1, loops.Setting()) > 100
