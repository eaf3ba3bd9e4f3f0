"""Neural MMO: its folder of maps, lives and their infos, masks, pictures, and the policy."""

import tempfile

import numpy as np
import pytest
import torch

from pufferlib.environments import neural_mmo
from pufferlib.environments.neural_mmo.world import COLORS, PLAYER
from pufferlib.exceptions import APIUsageError, ConfigError

pytestmark = pytest.mark.slow

FEW = ("Terrain", "Resource", "Combat", "NPC")


def make(**options):
    return neural_mmo.make_env(**{"num_players": 8, "horizon": 40, "systems": FEW} | options)


def play(env, steps, seed=1):
    """Allowed random actions: the observations `(steps + 1, agents, row_size)`, and all infos."""
    rng, mask = np.random.default_rng(0), env.emulated.action_mask
    observations, _ = env.reset(seed=seed)
    rows, infos = [np.stack(list(observations.values()))], []
    for _ in range(steps):
        structs = rows[-1].view(env.emulated.observation_dtype)[:, 0]
        actions = mask.choose(structs, rng.random((len(structs), sum(mask.nvec))))
        observations, *_, info = env.step(actions)
        rows.append(np.stack(list(observations.values())))
        infos += [(agent, life) for agent, life in info.items() if life]
    return np.stack(rows), infos


def test_maps_lie_in_a_folder_of_their_own(tmp_path, monkeypatch):
    temporary, working = tmp_path / "temporary", tmp_path / "working"
    temporary.mkdir()
    working.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(working)
    envs = [make(num_maps=2), make()]
    maps = [len(list(folder.rglob("map.npy"))) for folder in temporary.iterdir()]
    assert sorted(maps) == [1, 2]
    for env in envs:
        env.reset(seed=1)
        env.close()
    assert list(temporary.iterdir()) == list(working.iterdir()) == []


def test_a_life_ends_with_what_it_came_to():
    env = make()
    _, lives = play(env, 40)
    env.close()
    assert sorted(agent for agent, _ in lives) == list(range(1, 9)), "one life each"
    died = [life for _, life in lives if life["episode_length"] < 40]
    assert died, "nobody has drunk"
    for life in died:
        survived = life["episode_length"] - 1
        assert life["episode_return"] == pytest.approx(survived / 40 - 1, abs=1e-5)
    keys = {"exploration", "level", "player_kills", "episode_return", "episode_length"}
    assert all(set(life) == keys for _, life in lives)
    assert all(0 < life["exploration"] < 32 for _, life in lives)


def test_observations_have_a_mask_and_no_empty_task():
    env = make()
    names = set(env.emulated.observation_dtype.names)
    env.close()
    assert names == {"action_mask", "AgentId", "CurrentTick", "Entity", "Tile"}


def test_who_has_somebody_in_reach_must_attack_somebody():
    env = make(NPC_N=96)
    rows, _ = play(env, 20)
    env.close()
    targets = rows.reshape(-1, rows.shape[2]).view(env.emulated.observation_dtype)[:, 0]
    targets = targets["action_mask"]["Attack"]["Target"]
    somebody, nobody = targets[:, :-1].any(axis=1), targets[:, -1] != 0
    assert 0 < somebody.sum() < len(targets)
    assert (somebody != nobody).all()


def test_a_picture_shows_squares_and_players():
    env = make(num_players=3)
    env.reset(seed=1)
    picture = env.render()
    env.close()
    assert picture.shape == (256, 256, 3)
    squares = picture[::4, ::4].reshape(-1, 3)
    assert (squares == PLAYER).all(axis=1).sum() == 3
    assert {tuple(COLORS[2]), tuple(COLORS[14])} & set(map(tuple, squares))


def test_an_unknown_system_is_refused():
    with pytest.raises(ConfigError, match=r"some of Terrain, .*, got \['Trade'\]"):
        make(systems=("Trade",))


def test_an_unknown_option_gets_the_nearest_one():
    with pytest.raises(ConfigError, match="unknown option 'NPC_NN'; did you mean 'NPC_N'"):
        make(NPC_NN=16)


# -- the policy ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world():
    """A world with every system, rows of it, and a policy."""
    env = make(systems=neural_mmo.environment.SYSTEMS, NPC_N=96)
    rows, _ = play(env, 12)
    env.close()
    torch.manual_seed(0)
    return env, rows.reshape(-1, rows.shape[2]), neural_mmo.Policy(env)


def test_every_choice_has_logits_that_obey_the_mask(world):
    env, rows, policy = world
    structs = rows.view(env.emulated.observation_dtype)[:, 0]
    allowed = env.emulated.action_mask.allowed(structs)
    logits, value = policy(torch.from_numpy(rows))
    assert [part.shape[1] for part in logits] == env.single_action_space.nvec.tolist()
    assert value.shape == (len(rows), 1)
    finite = torch.cat(logits, dim=1).isfinite().numpy()
    assert (finite == allowed).all()
    _, _, state = neural_mmo.Recurrent(env, policy)(torch.from_numpy(rows))
    assert state[0].shape == (1, len(rows), policy.hidden_size)


def test_the_order_of_a_list_changes_nothing_but_the_order_of_its_options(world):
    env, rows, policy = world
    mixed = rows.copy()
    structs = mixed.view(env.emulated.observation_dtype)[:, 0]
    order = np.random.default_rng(0).permutation(100)
    structs["Entity"] = structs["Entity"][:, order]
    mask = structs["action_mask"]["Attack"]["Target"]
    mask[:, :100] = mask[:, order]
    attack = env.emulated.action_mask.fields.index(("action_mask", "Attack", "Target"))
    (before, value), (after, same) = (policy(torch.from_numpy(part)) for part in (rows, mixed))
    torch.testing.assert_close(before[attack][:, order], after[attack][:, :100])
    torch.testing.assert_close(value, same)
    assert before[attack][:, :100].isfinite().sum() > 10


def test_another_environment_is_refused(world):
    from pufferlib.environments import classic_control

    with pytest.raises(APIUsageError, match="expected the observations of neural_mmo.make_env"):
        neural_mmo.Policy(classic_control.make_env())
