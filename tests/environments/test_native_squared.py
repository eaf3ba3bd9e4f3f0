"""Native Squared: the twin of the Python one bit for bit; what the core refuses."""

import zlib

import needs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_games import random_actions, records

from pufferlib import native
from pufferlib.buffers import Buffers
from pufferlib.environments.ocean.native import NativeSquared
from pufferlib.environments.ocean.sanity import Squared
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError, SnapshotError, SpaceError
from pufferlib.pictures import half_blocks
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.setup import load_config, make_vecenv

LEFT = 0

pytestmark = needs.compiled_core


class Twins:
    """As many Python environments, which begin their next episode in the step that ends one."""

    def __init__(self, num_agents, seed, **options):
        seeds = SplitMix64(seed)
        self.envs = [Squared(**options) for _ in range(num_agents)]
        self.observations = np.stack([env.reset(seed=seeds.next())[0] for env in self.envs])
        self.returns = [0.0] * num_agents

    def step(self, actions):
        rewards, ends, records = [], [], []
        for i, (env, action) in enumerate(zip(self.envs, actions.tolist(), strict=True)):
            self.observations[i], reward, terminal, _, info = env.step(action)
            rewards.append(reward)
            ends.append(terminal)
            self.returns[i] += reward
            if terminal:
                limit = env.num_targets * env.distance_to_target
                records.append((info["score"], pytest.approx(self.returns[i], abs=1e-5), limit))
                self.returns[i] = 0.0
                self.observations[i], _ = env.reset()
        return np.array(rewards, np.float32), np.array(ends), records


def require_twins(steps, num_agents, seed, **options):
    env, twins = NativeSquared(num_agents, **options), Twins(num_agents, seed, **options)
    assert env.reset(seed) == []
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        np.testing.assert_array_equal(env.observations, twins.observations)
        actions = rng.integers(8, size=num_agents)
        infos = env.step(actions)
        rewards, ends, expected = twins.step(actions)
        assert env.rewards.tobytes() == rewards.tobytes()
        np.testing.assert_array_equal(env.terminals, ends)
        assert [tuple(map(float, record)) for record in records(infos)] == [
            (np.float32(score), total, length) for score, total, length in expected
        ]


@given(
    d=st.integers(1, 6),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**63 - 1),
    num_agents=st.integers(1, 5),
)
@settings(max_examples=25)
def test_it_is_the_twin_of_python_squared(d, share, seed, num_agents):
    targets = 1 + int(share * (8 * d - 1))
    require_twins(60, num_agents, seed, distance_to_target=d, num_targets=targets)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2**62])
@pytest.mark.parametrize(("d", "targets"), [(1, 1), (3, 1), (5, 1), (2, 16), (5, 7), (40, 320)])
def test_it_is_the_twin_over_thousands_of_steps(d, targets, seed):
    require_twins(4_000, 3, seed, distance_to_target=d, num_targets=targets)


def test_random_play_of_a_seed():
    """Fixed for ever, like the twin's."""
    env = NativeSquared(64, distance_to_target=2, num_targets=3)
    env.reset(seed=7)
    digest, infos = 0, []
    for actions in random_actions(env, 600):
        infos += env.step(actions)
        for array in (env.observations, env.rewards, env.terminals):
            digest = zlib.crc32(array, digest)
    scores = np.concatenate([info["score"] for info in infos])
    assert digest == 2624268576
    assert (len(scores), round(float(scores.sum()) * 3)) == (6_400, 2_514)


@settings(max_examples=40)
@given(d=st.integers(1, 8), share=st.floats(0, 1), seed=st.integers(0, 2**63 - 1))
def test_invariants(d, share, seed):
    n = 1 + int(share * (8 * d - 1))
    env = NativeSquared(7, distance_to_target=d, num_targets=n)
    env.reset(seed)
    rng = np.random.default_rng(seed)
    grids = env.observations
    edge = np.zeros((2 * d + 1, 2 * d + 1), bool)
    edge[[0, -1]] = edge[:, [0, -1]] = True
    for tick in range(1, 3 * n * d + 1 if n * d < 40 else 40):
        before = grids == 1
        infos = env.step(rng.integers(8, size=7))
        assert ((grids == -1).sum((1, 2)) == 1).all()
        assert ((grids == 1).sum((1, 2)) == n).all()
        assert not (grids == 1)[:, ~edge].any()
        assert (env.terminals == (tick % (n * d) == 0)).all()
        assert env.terminals.all() or ((grids == 1) == before).all()
        assert (np.abs(env.rewards) <= 1).all()
        assert len(records(infos)) == (7 if env.terminals.all() else 0)


def test_records_are_in_the_order_of_the_rows():
    env = NativeSquared(6, distance_to_target=1, threads=3)
    env.reset(seed=2)
    (info,) = env.step(np.arange(6))
    np.testing.assert_array_equal(info["score"], env.rewards == 1)
    np.testing.assert_array_equal(info["episode_return"], env.rewards)


def test_a_state_of_other_options_is_refused():
    env = NativeSquared(2)
    env.reset(seed=0)
    with pytest.raises(SnapshotError, match="options: expected the state of an environment with"):
        NativeSquared(2, distance_to_target=4).set_state(env.get_state())


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"distance_to_target": 0}, "distance_to_target: expected at least 1, got 0"),
        ({"distance_to_target": 128}, "distance_to_target: expected at most 127.*got 128"),
        ({"distance_to_target": 1, "num_targets": 9}, "expected 1 to 8 .*got 9"),
    ],
)
def test_impossible_squares_are_refused(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        NativeSquared(**kwargs)


def test_the_core_refuses_what_would_be_read_out_of_bounds():
    make = native.require("Worlds", "the test")
    for arguments in [("x", [3, 1]), ("squared", [3]), ("squared", [128, 1]), ("squared", [3, 25])]:
        with pytest.raises(ValueError, match="game|options"):
            make(*arguments, 2, 1)
    env = NativeSquared(2)
    with pytest.raises(SpaceError, match="before reset"):
        env.step(np.zeros(2, np.int64))
    rows = Buffers.allocate(env.single_observation_space, env.single_action_space, 3, final=True)
    with pytest.raises(ValueError, match="observations: expected 98 bytes, got 147"):
        env.bind(rows)
    arrays = [env.observations, env.final_observations, env.rewards.astype(float)]
    flags = [env.terminals, env.truncations, env.masks]
    with pytest.raises(TypeError):
        env._worlds.bind(*arrays, *flags, np.zeros(24, np.uint8))


@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_vectorized_and_evaluated_like_any_environment(threads):
    config = load_config("squared_native")
    results = []
    for backend in ("serial", "multiprocessing"):
        sizes = {"num_envs": 2, "num_agents": 5, "num_workers": 1}
        options = {"threads": threads, "distance_to_target": 1}
        with make_vecenv(config, backend=backend, **sizes, **options) as vecenv:
            results.append(evaluate_policy(vecenv, None, 40, score_key=config.score_key))
    assert results[0] == results[1]
    assert results[0].lengths == [1] * 40
    assert results[0].scores == [float(total == 1) for total in results[0].returns]
    assert 0 < results[0].mean < 0.5


def test_the_picture_of_the_first_square():
    """Cyan targets and a red agent on dark grey, as the Python twin has them."""
    env = NativeSquared(2, distance_to_target=2, num_targets=5)
    env.reset(seed=3)
    env.step(np.array([LEFT, LEFT]))
    colors = np.array([(48, 48, 48), (0, 175, 175), (215, 0, 0)])
    assert env.render() == half_blocks(colors[env.observations[0]].astype(np.uint8))
