"""Native Squared: the twin of the Python one bit for bit, its rows, threads, copies, refusals."""

import copy
import os
import pickle
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pufferlib import native, snapshot
from pufferlib.buffers import Buffers
from pufferlib.environments.ocean.native import NativeSquared
from pufferlib.environments.ocean.sanity import Squared
from pufferlib.environments.ocean.splitmix import SplitMix64
from pufferlib.exceptions import ConfigError, EnvironmentSetupError, SnapshotError, SpaceError
from pufferlib.pictures import half_blocks
from pufferlib.testing import check_env
from pufferlib.trainer.evaluate import evaluate_policy
from pufferlib.trainer.setup import load_config, make_vecenv

LEFT = 0

pytestmark = pytest.mark.skipif(not native.available, reason="needs the compiled core")


def play(env, steps, seed=3):
    """The rows after each of `steps` random steps, as one array of bytes each, and the infos."""
    rng = np.random.default_rng(seed)
    rows, infos = [], []
    for _ in range(steps):
        infos += env.step(rng.integers(8, size=env.num_agents))
        rows.append(b"".join(a.tobytes() for a in (env.observations, env.rewards, env.terminals)))
    return rows, infos


def records(infos):
    """The episodes of some infos, as (score, return, length)."""
    return [record for info in infos for record in zip(*info.values(), strict=True)]


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
    rows, infos = play(env, 600)
    scores = np.concatenate([info["score"] for info in infos])
    assert zlib.crc32(b"".join(rows)) == 2624268576
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


def test_it_keeps_the_native_contract():
    check_env(lambda: NativeSquared(5, distance_to_target=2, num_targets=2))


def test_agents_do_not_know_how_many_they_are_and_no_seed_goes_on():
    few, many = NativeSquared(3), NativeSquared(10)
    for env in (few, many):
        env.reset(seed=5)
        env.reset()
    np.testing.assert_array_equal(few.observations, many.observations[:3])
    assert len(np.unique(many.observations.reshape(10, -1), axis=0)) > 5


def test_an_unseeded_environment_works():
    env = NativeSquared(2)
    assert env.reset() == []
    assert ((env.observations == 1).sum((1, 2)) == 1).all()


@pytest.mark.parametrize("threads", [2, 3, 50])
def test_threads_change_nothing(threads):
    envs = [NativeSquared(11, num_targets=2, threads=count) for count in (1, threads)]
    for env in envs:
        env.reset(seed=1)
    alone, together = (play(env, 40) for env in envs)
    assert alone[0] == together[0]
    assert records(alone[1]) == records(together[1])


def test_a_forked_child_has_threads_of_its_own():
    env = NativeSquared(8, num_targets=2, threads=2)
    env.reset(seed=1)
    play(env, 3)  # hires the threads, which a child does not have
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, zlib.crc32(b"".join(play(env, 9)[0])).to_bytes(4, "big"))
        os._exit(0)
    assert os.read(reader, 4) == zlib.crc32(b"".join(play(env, 9)[0])).to_bytes(4, "big")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)
    os.close(writer)


def test_records_are_in_the_order_of_the_rows():
    env = NativeSquared(6, distance_to_target=1, threads=3)
    env.reset(seed=2)
    (info,) = env.step(np.arange(6))
    np.testing.assert_array_equal(info["score"], env.rewards == 1)
    np.testing.assert_array_equal(info["episode_return"], env.rewards)
    kept = info["score"].copy()
    env.step(np.arange(6)[::-1].copy())
    np.testing.assert_array_equal(info["score"], kept)


def test_states_and_copies_go_on_the_same_way():
    env = NativeSquared(4, num_targets=2)
    unplayed = pickle.loads(pickle.dumps(env))
    unplayed.reset(seed=1)
    env.reset(seed=1)
    np.testing.assert_array_equal(unplayed.observations, env.observations)
    play(env, 4)
    restored = NativeSquared(4, num_targets=2, threads=2)
    snapshot.put_back(restored, snapshot.take(env))
    twins = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env)), restored]
    observations = [twin.observations.tolist() for twin in twins]
    assert observations[0] == observations[1] == observations[2] == observations[3]
    runs = [play(twin, 9) for twin in twins]
    assert runs[0][0] == runs[1][0] == runs[2][0] == runs[3][0]
    assert len({records(infos)[0] for _, infos in runs}) == 1


def test_a_state_of_other_options_is_refused():
    env = NativeSquared(2)
    env.reset(seed=0)
    for other in (NativeSquared(2, distance_to_target=4), NativeSquared(3)):
        with pytest.raises(SnapshotError, match="expected the state of an environment with"):
            other.set_state(env.get_state())


def test_new_rows_are_filled_in_the_middle_of_an_episode():
    env = NativeSquared(3)
    env.reset(seed=0)
    env.step(np.zeros(3, np.int64))
    shown = env.observations.copy()
    rows = Buffers.allocate(env.single_observation_space, env.single_action_space, 5, final=True)
    env.bind(rows.view(1, 4))
    np.testing.assert_array_equal(rows.observations[1:4], shown)
    assert not rows.observations[[0, 4]].any()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([0, 8, 0]), r"actions\[1\]: expected 0 to 7, got 8"),
        (np.array([0, 0, -1]), r"actions\[2\]: expected 0 to 7, got -1"),
        (np.array([0, 0, -(2**63)]), r"actions\[2\]: expected 0 to 7, got -9223372036854775808"),
        (np.zeros(3, np.int32), r"array \(3,\) of int64.*got ndarray \(3,\) of int32"),
        (np.zeros(2, np.int64), r"array \(3,\) of int64.*got ndarray \(2,\) of int64"),
        ([0, 0], r"array \(3,\) of int64.*got list \(2,\) of int64"),
    ],
)
def test_impossible_actions_change_nothing(actions, message):
    env = NativeSquared(3)
    env.reset(seed=0)
    state = env.get_state()
    with pytest.raises(SpaceError, match=message):
        env.step(actions)
    assert env.get_state() == state


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_agents": 0}, "num_worlds: expected at least 1, got 0"),
        ({"threads": 0}, "threads: expected at least 1, got 0"),
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


def test_without_the_core_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(native, "_core", None)
    with pytest.raises(EnvironmentSetupError, match="installed without it.*apt install gcc g"):
        NativeSquared(2)


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
