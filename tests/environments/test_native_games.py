"""What holds for every native game: equal trajectories, rows, copies, refusals, pictures."""

import copy
import os
import pickle
import zlib
from pathlib import Path

import needs
import numpy as np
import pytest
from native_games import CASES, play, random_actions, records

from pufferlib import native, snapshot, vector
from pufferlib.buffers import Buffers
from pufferlib.environments.ocean import native as games
from pufferlib.exceptions import (
    APIUsageError,
    ConfigError,
    EnvironmentSetupError,
    SnapshotError,
    SpaceError,
)
from pufferlib.pictures import half_blocks
from pufferlib.testing import check_env

AGENTS = 12

pytestmark = needs.compiled_core
every_game = pytest.mark.parametrize("case", CASES, ids=str)


def begun(case, agents=AGENTS, seed=5, **options):
    env = case.make(num_agents=agents, **options)
    assert env.reset(seed=seed) == []
    return env


def test_every_game_is_here():
    sources = {path.stem for path in Path(games.__file__).parent.glob("*.c")}
    assert {case.kind.game for case in CASES} == sources - {"games"}


@every_game
def test_it_keeps_the_native_contract(case):
    check_env(lambda: case.make(num_agents=AGENTS), steps=60)


@every_game
def test_threads_change_nothing(case):
    alone, together = begun(case), begun(case, threads=3)
    assert play(alone, 30) == play(together, 30)


def test_threads_without_a_world_change_nothing():
    alone, together = begun(CASES[0]), begun(CASES[0], threads=50)
    assert play(alone, 30) == play(together, 30)


@every_game
def test_worlds_do_not_know_how_many_they_are(case):
    few, many = begun(case), begun(case, 5 * AGENTS)
    for actions in random_actions(many, 60):
        few.step(actions[:AGENTS])
        many.step(actions)
        for name in ("observations", "rewards", "terminals", "truncations", "masks"):
            assert getattr(few, name).tobytes() == getattr(many, name)[:AGENTS].tobytes()


@every_game
def test_a_reset_without_a_seed_goes_on_with_the_streams(case):
    envs = [begun(case), begun(case), begun(case, seed=6)]
    for env in envs:
        env.reset()
    once, again, other = (play(env, 60) for env in envs)
    assert once == again
    assert once != other
    assert once != play(begun(case), 60)


@every_game
def test_an_unseeded_environment_works(case):
    first, second = case.make(num_agents=AGENTS), case.make(num_agents=AGENTS)
    assert first.reset() == second.reset() == []
    assert play(first, 60) != play(second, 60)


@every_game
def test_rows_are_those_of_the_state_after_every_step(case):
    """A game that writes only what changes writes the same as one that begins with nothing."""
    env, anew = begun(case), case.make(num_agents=AGENTS)
    for actions in random_actions(env, 300):
        env.step(actions)
        anew.observations.view(np.uint8).fill(0x5A)
        anew.set_state(env.get_state())
        np.testing.assert_array_equal(anew.observations, env.observations)
        np.testing.assert_array_equal(anew.masks, env.masks)


@every_game
def test_records_tell_what_the_rows_told(case):
    env = begun(case)
    returns, lengths, episodes = np.zeros(AGENTS), np.zeros(AGENTS, int), 0
    for actions in random_actions(env, 300):
        told = records(env.step(actions))
        returns += env.rewards
        lengths += 1
        ended = env.terminals | env.truncations
        assert not (env.terminals & env.truncations).any()
        assert [length for *_, length in told] == lengths[ended].tolist()
        assert [total for _, total, _ in told] == pytest.approx(returns[ended].tolist(), abs=1e-4)
        assert all(0 <= score <= 1 for score, *_ in told)
        returns[ended] = lengths[ended] = 0
        episodes += len(told)
    assert episodes


@every_game
def test_records_are_copies(case):
    env = begun(case)
    infos = [info for actions in random_actions(env, 300) for info in env.step(actions)]
    kept = copy.deepcopy(infos[0])
    for actions in random_actions(env, 300, seed=4):
        env.step(actions)
    assert records([kept]) == records(infos[:1])


@every_game
def test_states_and_copies_go_on_the_same_way(case):
    env = case.make(num_agents=AGENTS)
    unplayed = pickle.loads(pickle.dumps(env))
    for either in (env, unplayed):
        either.reset(seed=1)
    np.testing.assert_array_equal(unplayed.observations, env.observations)
    play(env, 17)
    restored = case.make(num_agents=AGENTS, threads=2)
    snapshot.put_back(restored, snapshot.take(env))
    twins = [env, copy.deepcopy(env), pickle.loads(pickle.dumps(env)), restored]
    assert len({twin.observations.tobytes() + twin.masks.tobytes() for twin in twins}) == 1
    runs = [play(twin, 60, seed=4) for twin in twins]
    assert all(run == runs[0] for run in runs)


@every_game
def test_a_state_of_another_number_of_worlds_is_refused(case):
    env = begun(case)
    with pytest.raises(SnapshotError, match="num_worlds: expected the state of an environment"):
        case.make(num_agents=2 * AGENTS).set_state(env.get_state())


@every_game
def test_new_rows_are_filled_in_the_middle_of_an_episode(case):
    env = begun(case)
    play(env, 3)
    shown = env.observations.copy()
    space, actions = env.single_observation_space, env.single_action_space
    rows = Buffers.allocate(space, actions, AGENTS + 2, final=True)
    env.bind(rows.view(1, AGENTS + 1))
    np.testing.assert_array_equal(rows.observations[1:-1], shown)
    assert not rows.observations[[0, -1]].any()


@every_game
def test_impossible_actions_change_nothing(case):
    env = begun(case)
    state, many, agents = env.get_state(), env.single_action_space.n, f"array \\({AGENTS},\\)"
    actions = np.zeros(AGENTS, np.int64)
    for bad in (many, -1, -(2**63)):
        actions[7] = bad
        with pytest.raises(SpaceError, match=rf"actions\[7\]: expected 0 to {many - 1}, got {bad}"):
            env.step(actions)
    with pytest.raises(SpaceError, match=f"{agents} of int64.*got ndarray .* of int32"):
        env.step(np.zeros(AGENTS, np.int32))
    with pytest.raises(SpaceError, match=rf"{agents} of int64.*got ndarray \(2,\) of int64"):
        env.step(np.zeros(2, np.int64))
    with pytest.raises(SpaceError, match=rf"{agents} of int64.*got list \(2,\) of int64"):
        env.step([0, 0])
    assert env.get_state() == state


@every_game
def test_impossible_sizes_are_refused(case):
    for name in ("num_agents", "threads"):
        with pytest.raises(ConfigError, match="expected .*, got 0"):
            case.make(**{"num_agents": AGENTS, name: 0})
    with pytest.raises(ConfigError, match="render_mode: expected None or one of ansi, rgb_array"):
        case.make(num_agents=AGENTS, render_mode="human")


@every_game
def test_pictures_show_the_state_of_the_first_world(case):
    texts, arrays = begun(case), case.make(num_agents=AGENTS, render_mode="rgb_array")
    with pytest.raises(APIUsageError, match=r"expected a reset\(\)"):
        arrays.render()
    seen = set()
    for seed in range(8):
        play(texts, 5, seed)
        arrays.set_state(texts.get_state())
        picture = arrays.render()
        assert picture.dtype == np.uint8
        assert picture.shape[0] >= 256
        scale = picture.shape[0] // arrays._worlds.picture(0).shape[0]
        assert texts.render() == half_blocks(picture[::scale, ::scale])
        seen.add(picture.tobytes())
    assert len(seen) > 4
    assert begun(case, render_mode=None).render() is None


@every_game
def test_another_process_plays_the_same(case):
    recordings = []
    for backend in (vector.Serial, vector.Multiprocessing):
        kwargs = {"num_agents": AGENTS}
        with vector.make(case.make, env_kwargs=kwargs, backend=backend, num_envs=2) as vecenv:
            rows = [vecenv.reset(seed=3)[0].tobytes()]
            for actions in random_actions(vecenv, 40):
                *arrays, infos = vecenv.step(actions)
                rows += [array.tobytes() for array in arrays] + [str(records(infos))]
        recordings.append(rows)
    assert recordings[0] == recordings[1]


@every_game
def test_a_forked_child_has_threads_of_its_own(case):
    env = begun(case, threads=2)
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


@every_game
def test_without_the_core_the_remedy_is_named(case, monkeypatch):
    monkeypatch.setattr(native, "_core", None)
    with pytest.raises(EnvironmentSetupError, match="installed without it.*apt install gcc g"):
        case.make(num_agents=AGENTS)
