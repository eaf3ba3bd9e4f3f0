"""Environments that are not run here: the bindings against stand-ins for what they bind.

The stand-ins in `stand_ins/` speak the published interfaces and check what they are given.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small, update

from pufferlib import clean_pufferl, environments, vector
from pufferlib.exceptions import ConfigError, EnvironmentSetupError
from pufferlib.pytorch import sample_logits
from pufferlib.testing import check_env, require_equal, rollout

STAND_INS = Path(__file__).parent / "stand_ins"
PACKAGES = ("deepmind_lab", "gym", "minerl", "pysc2", "smac")
SMALL = {"width": 40, "height": 36}
FAMILIES = {"deepmind_lab": SMALL, "minerl": SMALL, "smac": {}}


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """Instead of real packages, whether these are installed or not."""
    hidden = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    for name in hidden:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(STAND_INS)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


@pytest.mark.parametrize("family", FAMILIES)
def test_they_keep_the_contract(family):
    module = environments.load(family)
    check_env(module.env_creator()(**FAMILIES[family]))
    with pytest.raises(ConfigError, match="did you mean"):
        module.env_creator(environments.ROWS[family].default + "x")


@pytest.mark.parametrize("family", FAMILIES)
def test_policies_choose_actions_that_they_take(family):
    module = environments.load(family)
    with vector.make(module.env_creator(), num_envs=2, env_kwargs=FAMILIES[family]) as vecenv:
        policy = module.Policy(vecenv.driver_env)
        recurrent = module.Recurrent(vecenv.driver_env, policy)
        rows = torch.from_numpy(vecenv.reset(seed=1)[0])
        for _ in range(12):  # the stand-ins refuse what is not allowed
            action = sample_logits(policy(rows)[0])[0]
            observations, *_ = vecenv.step(action.numpy())
            rows = torch.from_numpy(observations)
        assert recurrent(rows)[1].shape == (vecenv.num_agents, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_workers_play_what_serial_plays(family):
    creator = environments.load(family).env_creator()
    records = []
    for backend in ({"backend": "serial"}, {"backend": "multiprocessing", "num_workers": 2}):
        # The stand-ins are found in this process only: a fork has what was found.
        with vector.make(creator, num_envs=2, env_kwargs=FAMILIES[family], **backend) as vecenv:
            records.append(rollout(vecenv, 30, seed=5))
    require_equal(*records)
    assert (records[0].terminals | records[0].truncations).sum(axis=0).min() >= 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_policy_with_memory_learns(family, tmp_path):
    module = environments.load(family)
    torch.manual_seed(0)
    vecenv = vector.make(module.env_creator(), num_envs=2, env_kwargs=FAMILIES[family])
    policy = module.Recurrent(vecenv.driver_env, module.Policy(vecenv.driver_env))
    trainer = clean_pufferl.create(small(), vecenv, policy, tmp_path)
    before = {name: weight.detach().clone() for name, weight in policy.named_parameters()}
    update(trainer)
    still = [name for name, w in policy.named_parameters() if torch.equal(w, before[name])]
    clean_pufferl.close(trainer)
    assert still == []


@pytest.mark.parametrize("family", FAMILIES)
def test_without_them_the_message_says_why_pip_cannot_help(family, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    row = environments.ROWS[family]
    assert row.state == "impossible"
    with pytest.raises(EnvironmentSetupError) as caught:
        environments.load(family)
    assert row.elsewhere in str(caught.value)


def test_lab_gets_published_actions_and_a_seed_for_every_episode():
    lab_of = environments.load("deepmind_lab")
    env = lab_of.make_env("tests/empty_room_test", width=40, height=36, render_mode="rgb_array")
    observation, _ = env.reset(seed=3)
    game = sys.modules["deepmind_lab"].Lab.made[-1]
    seeds = [game.seed]
    assert (game.level, observation.shape) == ("tests/empty_room_test", (36, 40, 3))
    results = [env.step(action) for action in range(9)]
    assert [result[1] for result in results] == [4, 0, 0, 0, 0, 0, 4, 4, 40]
    moved = [{name: value for name, value in action.items() if value} for action in game.actions]
    assert moved[0] == {"MOVE_BACK_FORWARD": 1}
    assert moved[6] == {"LOOK_LEFT_RIGHT_PIXELS_PER_FRAME": -20, "MOVE_BACK_FORWARD": 1}
    last_seen = env.render().copy()
    observation, _, terminal, truncation, info = env.step(0)
    assert (terminal, truncation) == (True, False)
    assert (observation == last_seen).all(), "Lab has no observation after the end"
    assert info == {"episode_return": 56.0, "episode_length": 10}
    env.reset()
    seeds.append(game.seed)
    env.reset(seed=3)
    assert game.seed == seeds[0] != seeds[1]


def test_lab_knows_the_levels_of_dmlab30():
    creator = environments.load("deepmind_lab").env_creator("rooms_watermaze")
    creator().close()
    assert sys.modules["deepmind_lab"].Lab.made[-1].level == "contributed/dmlab30/rooms_watermaze"


def test_minerl_gets_keys_and_turns():
    env = environments.load("minerl").make_env(render_mode="rgb_array")
    observation, _ = env.reset(seed=3)
    game = env.env.unwrapped.env._game
    assert (observation.shape, env.render().shape) == ((128, 128, 3), (360, 640, 3))
    assert env.single_action_space.nvec.tolist() == [2] * 10 + [11, 11]
    action = np.array([0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 5, 10])
    _, reward, *_ = env.step(action)
    assert reward == 1
    taken = game.actions[-1]
    assert {key for key in taken if key != "camera" and taken[key]} == {"attack", "forward"}
    assert taken["camera"].tolist() == [0, 10]


def test_a_seed_decides_all_worlds_of_minerl():
    env = environments.load("minerl").make_env()
    game = env.env.unwrapped.env._game
    for seed in (3, None, 3, None):
        env.reset(seed=seed)
    first, second, *again = game.worlds
    assert again == [first, second]
    assert first != second


def test_smac_ends_in_victory_or_at_its_limit():
    env = environments.load("smac").make_env()
    env.reset()
    for _ in range(2):
        results = env.step(dict.fromkeys(env.agents, 6))
    _, rewards, terminals, truncations, infos = results
    assert rewards == dict.fromkeys(env.possible_agents, 3.0)
    assert all(terminals.values())
    assert not any(truncations.values())
    assert infos["unit_1"]["battle_won"] == 1
    assert infos["unit_1"]["episode_return"] == 6
    env.reset()
    while env.agents:
        alive = sys.modules["smac.env"].StarCraft2Env.made[-1].alive()
        *_, terminals, truncations, infos = env.step(
            {agent: int(is_alive) for agent, is_alive in zip(env.agents, alive, strict=True)}
        )
    assert all(truncations.values())
    assert not any(terminals.values())
    assert infos["unit_2"] == {
        "battle_won": 0,
        "dead_allies": 1,
        "dead_enemies": 0,
        "episode_return": 0,
        "episode_length": 8,
    }


def test_a_seed_of_smac_starts_the_game_anew():
    env = environments.load("smac").make_env("8m", difficulty="3")
    games = sys.modules["smac.env"].StarCraft2Env.made
    env.reset(seed=7)
    env.reset()
    assert [game.seed for game in games[-2:]] == [None, 7]
    assert [game.closed for game in games[-2:]] == [True, False]
    assert games[-1].settings == ("8m", "3", 8, False)
    env.close()
