"""MicroRTS: masks, chance that is the seed's, ends, rewards, and the policy over the map."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from pufferlib.environments import microrts
from pufferlib.exceptions import ConfigError
from pufferlib.pytorch import sample_logits

pytestmark = pytest.mark.bench

SIDE, COMMANDS = 8, 90
NOTHING, PRODUCE = 0, 13
MOVE_UP, MOVE_RIGHT, MOVE_DOWN = 1, 2, 3
BASE, WORKER = (1, 2), (1, 1)
"""Rows and columns of what we begin with."""


@pytest.fixture
def env():
    env = microrts.make_env(opponent="passive", max_episode_steps=100)
    yield env
    env.close()


def game_of(env):
    """The game itself, whose observations are structured."""
    return env.env.unwrapped


def orders(**squares):
    """Nothing everywhere, but what is said for `base` or `worker`."""
    grid = np.full((SIDE, SIDE), NOTHING)
    for name, command in squares.items():
        grid[{"base": BASE, "worker": WORKER}[name]] = command
    return grid.ravel()


def allowed(observation):
    """For each square that may do more than nothing, which commands."""
    mask = observation["action_mask"].reshape(SIDE, SIDE, COMMANDS).copy()
    mask[..., NOTHING] = 0
    return {
        tuple(square): np.flatnonzero(mask[tuple(square)]).tolist()
        for square in np.argwhere(mask.any(-1)).tolist()
    }


def test_only_what_waits_for_a_command_has_a_choice(env):
    observation, _ = game_of(env).reset(seed=1)
    may = allowed(observation)
    assert set(may) == {BASE, WORKER}
    assert set(may[WORKER]) >= {MOVE_UP, MOVE_DOWN}
    assert MOVE_RIGHT not in may[WORKER], "the base is there"
    assert all(command >= PRODUCE for command in may[BASE])
    mask = observation["action_mask"].reshape(-1, COMMANDS)
    assert (mask[:, NOTHING] == 1).all()
    observation, *_ = game_of(env).step(orders(worker=MOVE_DOWN))
    assert set(allowed(observation)) == {BASE}, "the worker is on its way"


def test_a_command_is_carried_out_and_paid():
    env = microrts.make_env(opponent="passive", reward_weights=(0, 0, 7, 0, 0, 0))
    observation, _ = game_of(env).reset(seed=1)
    train = allowed(observation)[BASE][0]
    steps = [game_of(env).step(orders(base=train)) for _ in range(60)]
    env.close()
    assert [reward for _, reward, *_ in steps if reward] == [7.0]
    drawn = game_of(env).render()
    assert (drawn.count("W"), drawn.count("B"), drawn.count("b")) == (2, 1, 1)


def test_the_map_is_drawn_in_letters(env):
    env.reset(seed=1)
    top, bottom = "*.......\n.WB.....\n", ".....bw.\n.......*"
    drawn = game_of(env).render()
    assert drawn.startswith(top)
    assert drawn.endswith(bottom)


def test_the_limit_truncates_and_sums_up(env):
    game = game_of(env)
    game.reset(seed=1)
    steps = [game.step(orders())[2:] for _ in range(100)]
    assert [step[:2] for step in steps] == [(False, False)] * 99 + [(False, True)]
    assert steps[-1][2]["won"] == 0
    assert [bool(step[2]) for step in steps] == [False] * 99 + [True]


def test_who_does_nothing_is_beaten():
    env = microrts.make_env(opponent="worker_rush", reward_weights=(10, 0, 0, 0, 0, 0))
    game = game_of(env)
    game.reset(seed=1)
    for _ in range(400):
        _, reward, terminal, truncation, info = game.step(orders())
        if terminal:
            break
    env.close()
    assert (reward, terminal, truncation) == (-10.0, True, False)
    assert info["won"] == 0


def test_games_of_one_process_do_not_share_their_chance():
    def play(games, seed=3):
        for game in games:
            game.reset(seed=seed)
        rows = [[game.step(orders())[0]["observation"] for game in games] for _ in range(80)]
        return np.array(rows).swapaxes(0, 1)

    one, other = (game_of(microrts.make_env(opponent="random")) for _ in range(2))
    together = play([one, other])
    alone = play([one])
    assert np.array_equal(together[0], together[1])
    assert np.array_equal(together[0], alone[0])
    assert not np.array_equal(alone[0], play([one], seed=4)[0])


SIGNALS = """
import os, signal
from pufferlib.environments import microrts

heard = []
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda number, frame: heard.append(number))
env = microrts.make_env()
env.reset(seed=1)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    os.kill(os.getpid(), number)
    env.step(env.action_space.sample())
assert len(heard) == 3, heard
env.close()
"""


def test_signals_are_pythons_and_not_javas():
    """A training that is terminated writes a checkpoint; Java would end the process."""
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_maps_and_opponents_are_looked_up():
    with pytest.raises(ConfigError, match="did you mean 'worker_rush'"):
        microrts.make_env(opponent="worker_rusch")
    with pytest.raises(ConfigError, match="did you mean 'basesWorkers16x16'"):
        microrts.env_creator("basesWorker16x16")


def test_the_policy_commands_what_is_allowed_and_looks_at_the_map(env):
    torch.manual_seed(0)
    policy = microrts.Policy(env, hidden_size=8, num_blocks=1)
    row = torch.from_numpy(env.reset(seed=1)[0][None].copy())
    logits, value = policy(row)
    assert (len(logits), logits[0].shape, value.shape) == (SIDE**2, (1, COMMANDS), (1, 1))
    finite = {n for n, part in enumerate(logits) if part.isfinite().sum() > 1}
    assert finite == {SIDE * row + column for row, column in (BASE, WORKER)}


def test_a_square_sees_what_is_near(env):
    torch.manual_seed(0)
    policy = microrts.Policy(env, hidden_size=8, num_blocks=1)
    row = torch.from_numpy(env.reset(seed=1)[0][None].copy())
    other = row.clone()
    leaf = policy.native_dtype["observation"]
    other[0, leaf.offset + leaf.delta - 1] ^= 1  # in the corner at the bottom right
    before, after = (policy.encode_features(rows)[0] for rows in (row, other))
    assert before.shape == (8, SIDE, SIDE)
    changed = (before != after).any(0).nonzero()
    assert changed.min(0).values.tolist() == [4, 4]
    assert policy.value_head(before[None]) != policy.value_head(after[None])


def probability_of(policy, rows, command):
    """Of a command at the worker's square."""
    logits, _ = policy(rows)
    return logits[SIDE * WORKER[0] + WORKER[1]].softmax(-1)[0, command]


def test_the_entropy_of_a_policy_without_preference_is_that_of_the_masks(env):
    policy = microrts.Policy(env, hidden_size=8, num_blocks=1)
    torch.nn.init.zeros_(policy.action_head.commands.weight)
    rows = torch.from_numpy(env.reset(seed=1)[0][None].copy())
    masks = game_of(env).reset(seed=1)[0]["action_mask"].reshape(-1, COMMANDS)
    *_, entropy = sample_logits(policy(rows)[0])
    assert entropy.item() == pytest.approx(np.log(masks.sum(1)).sum(), rel=1e-5)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_gradient_of_a_command_moves_its_probability(env, advantage):
    torch.manual_seed(0)
    policy = microrts.Policy(env, hidden_size=8, num_blocks=1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
    rows = torch.from_numpy(env.reset(seed=1)[0][None].copy())
    action = torch.from_numpy(orders(worker=MOVE_DOWN)[None])
    before = probability_of(policy, rows, MOVE_DOWN).item()
    _, log_probability, _ = sample_logits(policy(rows)[0], action)
    (-advantage * log_probability.sum()).backward()
    optimizer.step()
    after = probability_of(policy, rows, MOVE_DOWN).item()
    assert (after - before) * advantage > 0
    assert probability_of(policy, rows, MOVE_RIGHT).item() == 0, "it is not allowed"
