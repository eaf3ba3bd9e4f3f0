"""The facade gives what Gymnasium's own vector environments give."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers import vector as wrappers
from toys import COMINGS_AND_GOINGS, Echo, Lives, pair_game, vectorize

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.gymnasium import GymnasiumVectorEnv, make_vec
from pufferlib.postprocess import EpisodeStats


def cart_pole(limit=20):
    """Episodes of at most 20 steps: some fall, some reach the limit."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=limit, render_mode="rgb_array")
    return RecordEpisodeStatistics(env)


def play(envs, steps=60):
    """Everything that random actions lead to."""
    observations, infos = envs.reset(seed=7)
    results = [(observations, infos)]
    rng = np.random.default_rng(0)
    for _ in range(steps):
        results.append(envs.step(rng.integers(0, 2, envs.num_envs)))
    envs.close()
    return results


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_it_equals_gymnasiums(mode):
    creators = [cart_pole] * 3
    expected = play(SyncVectorEnv(creators, autoreset_mode=mode))
    got = play(make_vec(creators, autoreset_mode=mode))
    assert sum((step[2] | step[3]).sum() for step in expected[1:]) >= 9
    assert any(step[2].any() for step in expected[1:])
    assert any(step[3].any() for step in expected[1:])
    for mine, theirs in zip(got, expected, strict=True):
        for array, other in zip(mine[:-1], theirs[:-1], strict=True):
            np.testing.assert_array_equal(array, other)
        assert_equal_infos(mine[-1], theirs[-1])


def assert_equal_infos(infos, others):
    assert infos.keys() == others.keys()
    for key, value in others.items():
        if isinstance(value, dict):
            assert_equal_infos(infos[key], value)
        elif key == "final_obs":
            for row, other in zip(infos[key], value, strict=True):
                np.testing.assert_array_equal(row, other)
        elif key != "t":  # seconds
            np.testing.assert_array_equal(infos[key], value)


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_gymnasiums_wrappers_fit_around_it(backend):
    envs = wrappers.RecordEpisodeStatistics(
        make_vec(functools.partial(emulate_echo, 3), num_envs=2, backend=backend)
    )
    envs.reset(seed=0)
    infos = [envs.step(np.array([1, 1]))[4] for _ in range(3)]
    envs.close()
    assert "episode" not in infos[1]
    assert infos[2]["episode"]["l"].tolist() == [3, 3]
    assert infos[2]["episode"]["r"].tolist() == infos[2]["episode_return"].tolist() == [3, 3]


def emulate_echo(length):
    return GymnasiumPufferEnv(EpisodeStats(Echo(length=length)))


def test_a_script_keeps_what_it_got():
    envs = make_vec([cart_pole])
    first, _ = envs.reset(seed=7)
    kept = first.copy()
    envs.step(np.array([0]))
    np.testing.assert_array_equal(first, kept)
    envs.close()


def test_gymnasium_makes_it_by_name():
    entry = functools.partial(make_vec, functools.partial(emulate_echo, 3))
    gymnasium.register("EchoOfTheFacade-v0", vector_entry_point=entry)
    try:
        envs = gymnasium.make_vec("EchoOfTheFacade-v0", num_envs=2, autoreset_mode="SameStep")
    finally:
        del gymnasium.registry["EchoOfTheFacade-v0"]
    assert envs.num_envs == 2
    assert envs.spec.id == "EchoOfTheFacade-v0"
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.action_space.shape == (2,)
    envs.close()


def test_agents_that_come_and_go():
    envs = GymnasiumVectorEnv(vectorize(lambda: Lives(COMINGS_AND_GOINGS), n=2))
    _, infos = envs.reset(seed=0)
    assert envs.num_envs == 6
    assert infos["mask"].tolist() == [True, True, False] * 2
    envs.step(np.ones(6, np.int64))
    *_, terminals, _, infos = envs.step(np.ones(6, np.int64))
    assert terminals.tolist() == [False, True, False] * 2
    envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_what_is_told_of_an_agent_stands_in_its_row(mode):
    """Though the environment tells of its agents in another order than they have."""
    envs = make_vec(Backwards, num_envs=2, autoreset_mode=mode)
    envs.reset(seed=0)
    infos = [envs.step(np.zeros(4, np.int64))[-1] for _ in range(2)][-1]
    told = infos["final_info"] if mode == AutoresetMode.SAME_STEP else infos
    assert told["episode_return"].tolist() == [10, 20, 10, 20]
    envs.close()


class Backwards(PettingZooPufferEnv):
    """Two agents whose summaries come last to first."""

    def __init__(self):
        super().__init__(pair_game(length=2))

    def bind(self, buffers):
        rows = super().bind(buffers)
        step = rows.step

        def step_and_tell(actions):
            step(actions)
            if not rows.ended:
                return []
            return [{agent: {"episode_return": 10.0 * (1 + "ab".index(agent))} for agent in "ba"}]

        rows.step = step_and_tell
        return rows


def test_what_was_lost_has_no_record():
    """An environment that is made anew ends its episode without telling anything."""
    creators = [functools.partial(emulate_fragile, fails) for fails in (True, False)]
    envs = make_vec(creators, autoreset_mode="SameStep", restart=1)
    envs.reset(seed=0)
    with pytest.warns(RuntimeWarning, match="made anew"):
        *_, truncations, infos = [envs.step(np.array([1, 1])) for _ in range(2)][-1]
    assert truncations.tolist() == [True, False]
    assert infos["_final_obs"].tolist() == [True, True]
    assert infos["final_info"]["_episode_return"].tolist() == [False, True]
    envs.close()


class Fragile(Echo):
    """Raises at the end of its first episode, if it is to."""

    def __init__(self, fails):
        super().__init__(length=2)
        self.fails = fails

    def step(self, action):
        if self.fails and self.clock == 1:
            raise ValueError("lost")
        return super().step(action)


def emulate_fragile(fails):
    return GymnasiumPufferEnv(EpisodeStats(Fragile(fails)))


def test_environments_are_reached_and_rendered():
    envs = make_vec([cart_pole] * 2)
    envs.reset(seed=0)
    assert envs.render_mode == "rgb_array"
    assert [frame.shape for frame in envs.render()] == [(400, 600, 3)] * 2
    envs.set_attr("gravity", [1.0, 2.0])
    assert envs.get_attr("gravity") == (1.0, 2.0)
    for values in ([3.0], [3.0] * 3):
        with pytest.raises(APIUsageError, match="one for each of 2 environments"):
            envs.set_attr("gravity", values)
    assert envs.get_attr("gravity") == (1.0, 2.0)
    envs.close()
    envs.close()
    with pytest.raises(APIUsageError, match="closed"):
        envs.get_attr("gravity")


def test_what_it_cannot_do_is_refused():
    with pytest.raises(APIUsageError, match="got DISABLED"):
        make_vec([cart_pole], autoreset_mode=AutoresetMode.DISABLED)
    with pytest.raises(APIUsageError, match="batches of all 4 agents, got 2"):
        make_vec(emulate_cart_pole, num_envs=4, batch_size=2)
    for creators in ("CartPole-v1", ["CartPole-v1"], [cart_pole()]):
        with pytest.raises(APIUsageError, match=r"functools.partial\(gymnasium.make"):
            make_vec(creators)
    envs = make_vec([cart_pole])
    with pytest.raises(APIUsageError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.array([True])})
    envs.close()


def emulate_cart_pole():
    return GymnasiumPufferEnv(cart_pole())
