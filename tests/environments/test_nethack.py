"""NetHack on the real game: seeding, limits, statistics, rewards, rendering, clean-up, policy."""

import gc
import multiprocessing
import re
import tempfile

import numpy as np
import pytest
import torch

pytest.importorskip("nle")

from nle import nethack as game

from pufferlib import vector
from pufferlib.environments import nethack
from pufferlib.environments.nethack import environment
from pufferlib.environments.nethack import torch as policies
from pufferlib.exceptions import APIUsageError, ConfigError
from pufferlib.pytorch import nativize_tensor

SEARCH, KICK, MORE = 22, 20, 0


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary directory of its own for the games of one test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def play(env, steps, seed):
    """Observations, rewards and ends of random play; resets where an episode ends."""
    rng = np.random.default_rng(seed)
    rows = [env.reset(seed=seed)[0].copy()]
    rewards, ends = [], []
    for _ in range(steps):
        row, reward, terminated, truncated, _ = env.step(int(rng.integers(23)))
        if terminated or truncated:
            row, _ = env.reset()
        rows.append(row.copy())
        rewards.append(reward)
        ends.append((terminated, truncated))
    return np.stack(rows), rewards, ends


def unpack(env, rows):
    """The leaves of rows, as arrays."""
    native = policies.nativize_dtype(env.emulated)
    return {
        key: leaf.numpy() for key, leaf in nativize_tensor(torch.from_numpy(rows), native).items()
    }


@pytest.mark.parametrize("name", ["NetHackScore-v0", "NetHackChallenge-v0"])
def test_a_seed_decides_the_games(name):
    runs = []
    for seed in (11, 11, 12):
        env = nethack.make_env(name, max_episode_steps=150)
        runs.append(play(env, 320, seed))
        env.close()
    assert (runs[0][0] == runs[1][0]).all()
    assert runs[0][1:] == runs[1][1:]
    assert (runs[0][0][0] != runs[2][0][0]).any()
    truncated = [step for step, end in enumerate(runs[0][2]) if end[1]]
    assert truncated, "the run spans several games"
    first, later = runs[0][0][0], runs[0][0][truncated[0] + 1]
    assert (first != later).any(), "an unseeded reset starts another game"


@pytest.mark.smoke
def test_reset_with_the_same_seed_repeats_the_game():
    env = nethack.make_env()
    first = play(env, 60, 3)
    again = play(env, 60, 3)
    assert (first[0] == again[0]).all()
    assert first[1:] == again[1:]
    env.close()


def test_three_hundred_steps_stay_inside_the_spaces():
    env = nethack.make_env()
    rows, rewards, _ = play(env, 300, 0)
    assert rows.dtype == np.uint8
    assert all(env.single_observation_space.contains(row) for row in rows)
    assert np.isfinite(rewards).all()
    leaves = unpack(env, rows)
    assert set(leaves) == {"glyphs", "blstats", "message"}
    assert leaves["glyphs"].shape == (301, 21, 79)
    x, y = leaves["blstats"][0, 0], leaves["blstats"][0, 1]
    hero = int(leaves["glyphs"][0, y, x])
    assert game.glyph_is_monster(hero)
    env.close()


def test_the_step_limit_truncates_and_keeps_the_position():
    env = nethack.make_env(max_episode_steps=20)
    env.reset(seed=1)
    for step in range(1, 21):
        row, _, terminated, truncated, info = env.step(SEARCH)
        assert (terminated, truncated) == (False, step == 20)
        assert (info != {}) == (step == 20)
    leaves = unpack(env, row[None])
    assert (leaves["glyphs"] != policies.BLANK_GLYPH).sum() > 1, "not the screen after quitting"
    assert leaves["blstats"][0, environment._TURN] == info["turns"] > 15
    assert info == {
        "score": 0.0,
        "depth": 1.0,
        "turns": info["turns"],
        "died": 0.0,
        "episode_return": info["episode_return"],
        "episode_length": 20,
    }
    env.close()


def test_limits_are_those_of_the_tasks():
    from nle.env import tasks

    for name, (class_name, limit) in environment.TASKS.items():
        kind = getattr(tasks, class_name, None) or tasks.base.NLE
        made = kind(observation_keys=("glyphs", "blstats", "message"), render_mode="ansi")
        assert made._max_episode_steps == limit, name
        made.close()


def test_score_is_the_games_own_and_survives_death():
    """Kicking walls kills; the screen after death says nothing, the info does."""
    env = nethack.make_env()
    deaths = 0
    for seed in range(40):
        env.reset(seed=seed)
        rng, total, done = np.random.default_rng(seed), 0.0, False
        while not done:
            action = KICK if rng.random() < 0.5 else int(rng.integers(1, 9))
            _, reward, done, truncated, info = env.step(action)
            total += reward
            done = done or truncated
        deaths += info["died"]
        assert info["episode_return"] == pytest.approx(total)
        frozen = round((info["score"] - total) / 0.01)
        assert 0 <= frozen <= info["episode_length"], (
            "score = return + 0.01 per step without a turn"
        )
        if deaths >= 3 and info["score"] > 0:
            break
    assert deaths >= 3
    env.close()


def test_learner_reward_is_scaled_clipped_and_off_the_statistics():
    kwargs = {"max_episode_steps": 400}
    plain, scaled, clipped = (
        nethack.make_env(**kwargs, **more)
        for more in ({}, {"reward_scale": 0.5}, {"reward_scale": 10.0, "reward_clip": 0.05})
    )
    runs = [play(env, 600, 4) for env in (plain, scaled, clipped)]
    rewards = np.array([run[1] for run in runs])
    assert (rewards[0] != 0).sum() > 10
    np.testing.assert_allclose(rewards[1], rewards[0] * 0.5)
    np.testing.assert_allclose(rewards[2], np.clip(rewards[0] * 10, -0.05, 0.05))
    for env in (plain, scaled, clipped):
        env.reset(seed=4)
    stats = []
    for env in (plain, clipped):
        done = False
        while not done:
            _, _, done, truncated, info = env.step(SEARCH)
            done = done or truncated
        stats.append(info)
        env.close()
    assert stats[0] == stats[1]
    scaled.close()


def test_rendering_shows_the_screen_only_when_asked():
    env = nethack.make_env()
    row, _ = env.reset(seed=2)
    assert row.nbytes < 4_000, "the screen does not travel with the observation"
    text = re.sub(r"\033\[[0-9;]*m", "", env.render())
    assert "@" in text
    assert "Dlvl:1" in text
    assert "\033[" in env.render()
    env.close()


def test_other_observations_can_be_chosen():
    env = nethack.make_env(observation_keys=("chars", "inv_glyphs"))
    row, _ = env.reset(seed=0)
    assert set(unpack(env, row[None])) == {"chars", "inv_glyphs"}
    with pytest.raises(
        APIUsageError, match=r"add \['blstats', 'glyphs', 'message'\] to observation_keys"
    ):
        nethack.Policy(env)
    env.close()


def test_an_unknown_task_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'NetHackScore-v0'"):
        nethack.make_env("NetHackScor-v0")


def test_closing_removes_the_games_folder(temporary):
    env = nethack.make_env()
    env.reset(seed=0)
    assert len(list(temporary.glob("nle*"))) == 1
    env.close()
    assert list(temporary.iterdir()) == []


def test_forgetting_to_close_removes_it_as_well(temporary):
    env = nethack.make_env()
    env.reset(seed=0)
    del env
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_two_episodes_through_vectorization(backend, temporary):
    with vector.make(
        nethack.env_creator(),
        env_kwargs={"max_episode_steps": 40},
        backend=backend,
        num_envs=4,
        num_workers=2,
        seed=5,
    ) as envs:
        rng = np.random.default_rng(0)
        observations, _ = envs.reset(seed=5)
        first = observations.copy()
        episodes, total = [], np.zeros(4)
        for _ in range(100):
            _, rewards, _, _, infos = envs.step(rng.integers(23, size=4))
            total += rewards
            episodes += infos
        assert len(list(temporary.glob("nle*"))) == 4
    assert [info["episode_length"] <= 40 for info in episodes] == [True] * len(episodes)
    assert len(episodes) >= 8, "two episodes of each of the four"
    assert len({row.tobytes() for row in first}) == 4, "every environment plays another game"
    assert list(temporary.iterdir()) == []
    assert not multiprocessing.active_children()


@pytest.fixture(scope="module")
def real_rows():
    """Rows of a game in progress, with their environment."""
    env = nethack.make_env()
    rows, _, _ = play(env, 63, 8)
    yield env, torch.from_numpy(rows)
    env.close()


def test_kinds_and_planes_agree_with_the_games_tables():
    for index, test in (
        (0, game.glyph_is_normal_monster),
        (1, game.glyph_is_pet),
        (2, game.glyph_is_invisible),
        (3, game.glyph_is_detected_monster),
        (4, game.glyph_is_body),
        (5, game.glyph_is_ridden_monster),
        (8, lambda glyph: glyph_range(glyph, game.GLYPH_EXPLODE_OFF, game.GLYPH_SWALLOW_OFF)),
        (9, game.glyph_is_swallow),
        (10, game.glyph_is_warning),
        (11, game.glyph_is_statue),
    ):
        kinds = policies.glyph_kinds()[: game.MAX_GLYPH]
        expected = [bool(test(glyph)) for glyph in range(game.MAX_GLYPH)]
        assert (kinds == index).tolist() == expected, index
    kinds, planes = policies.glyph_kinds(), policies.glyph_planes()
    for glyph in range(game.GLYPH_CMAP_OFF, game.GLYPH_EXPLODE_OFF):
        assert (kinds == kinds[glyph]).sum() == 1, "every map symbol has a kind of its own"
    assert game.MAX_GLYPH == policies.MAX_GLYPH
    explanations = {
        game.symdef.from_idx(index).explanation: planes[game.GLYPH_CMAP_OFF + index].tolist()
        for index in range(32)
    }
    assert explanations["staircase down"] == [1, 1, 0, 1, 0, 0, 0, 0]
    assert explanations["ladder up"] == [1, 1, 0, 0, 1, 0, 0, 0]
    assert explanations["closed door"] == [1, 0, 1, 0, 0, 0, 0, 0]
    assert explanations["floor of a room"] == [1, 1, 0, 0, 0, 0, 0, 0]
    assert explanations["wall"] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert planes[policies.BLANK_GLYPH].tolist() == [0] * 8


def glyph_range(glyph, first, end):
    """Whether the glyph lies in a block of the table."""
    return first <= glyph < end


def test_the_near_map_is_cut_out_around_the_hero(real_rows):
    env, rows = real_rows
    leaves = nativize_tensor(rows, policies.nativize_dtype(env.emulated))
    glyphs, blstats = leaves["glyphs"].long(), leaves["blstats"]
    near = policies.NearMap(crop=9)
    squares = near.crop_around(glyphs, blstats[:, 0], blstats[:, 1])
    padded = np.full((len(rows), 21 + 8, 79 + 8), policies.BLANK_GLYPH)
    padded[:, 4:-4, 4:-4] = glyphs
    for row, (x, y) in enumerate(blstats[:, :2].tolist()):
        assert (squares[row].numpy() == padded[row, y : y + 9, x : x + 9]).all()


@pytest.mark.parametrize(("x", "y"), [(0, 0), (77, 20), (40, 10), (2, 19)])
def test_the_far_map_has_the_heros_block_in_the_middle(x, y):
    far = policies.FarMap()
    glyphs = torch.full((1, 21, 79), policies.BLANK_GLYPH)
    stairs = game.GLYPH_CMAP_OFF + 24
    glyphs[0, y, x] = stairs
    blstats = torch.zeros(1, 27, dtype=torch.long)
    blstats[0, :2] = torch.tensor([x, y])
    around = far._around(far._blocks(glyphs), blstats)
    assert around.shape == (1, 8, 13, 27)
    seen = around[0].nonzero().tolist()
    assert seen == [[0, 6, 13], [1, 6, 13], [3, 6, 13]], "known, passable, stairs down"


def test_the_policy_learns_from_real_observations(real_rows):
    env, rows = real_rows[0], real_rows[1][:23]
    torch.manual_seed(0)
    policy = nethack.Policy(env)
    logits, value = policy(rows)
    assert (logits.shape, value.shape) == ((23, 23), (23, 1))
    assert torch.isfinite(logits).all()
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(23)) + value.pow(2).mean()
    loss.backward()
    silent = [name for name, weight in policy.named_parameters() if not weight.grad.abs().sum() > 0]
    assert silent == []
    torch.optim.SGD(policy.parameters(), lr=1e-4).step()
    logits, value = policy(rows)
    after = torch.nn.functional.cross_entropy(logits, torch.arange(23)) + value.pow(2).mean()
    assert after < loss


def test_the_policy_looks_at_each_of_its_observations(real_rows):
    env, rows = real_rows
    torch.manual_seed(0)
    policy = nethack.Policy(env)
    layout = policies.nativize_dtype(env.emulated)
    hidden, _ = policy.encode_observations(rows[:1])
    for key in ("glyphs", "blstats", "message"):
        changed = rows[:1].clone()
        nativize_tensor(changed, layout)[key].fill_(1)
        assert not torch.equal(policy.encode_observations(changed)[0], hidden), key


def test_a_batch_of_one_gives_the_same_as_a_large_batch(real_rows):
    env, rows = real_rows[0], real_rows[1][:4]
    policy = nethack.Policy(env).eval()
    with torch.no_grad():
        together, _ = policy(rows)
        alone = torch.cat([policy(row[None])[0] for row in rows])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_the_recurrent_policy_takes_segments(real_rows):
    env, rows = real_rows
    policy = nethack.Recurrent(env, nethack.Policy(env, hidden_size=32))
    starts = torch.zeros(4, 16, dtype=torch.bool)
    starts[:, 5] = True
    logits, value, state = policy(rows.view(4, 16, -1), None, starts)
    assert (logits.shape, value.shape, state[0].shape) == ((64, 23), (64, 1), (1, 4, 32))


def test_the_policy_stays_small(real_rows):
    env, _ = real_rows
    assert sum(weight.numel() for weight in nethack.Policy(env).parameters()) < 300_000


@pytest.mark.parametrize("name", ["NetHackScore-v0", "NetHack-v0", "NetHackChallenge-v0"])
def test_directions_are_those_of_the_actions(name):
    env = nethack.make_env(name)
    actions = [action.name for action in env.env.unwrapped.actions]
    policy = nethack.Policy(env)
    offsets = {"N": (-1, 0), "S": (1, 0), "E": (0, 1), "W": (0, -1)}
    compass = ["".join(sorted(name)) for name in actions[policy.direction_head.first :][:16]]
    expected = [
        tuple(int(part) for part in np.sum([offsets[letter] for letter in letters], axis=0))
        for letters in compass
    ]
    assert expected == list(policies.DIRECTIONS) * 2
    env.close()


def test_a_direction_is_scored_by_what_lies_there(real_rows):
    """One monster, moved around the hero: its score moves with it, and nothing else changes."""
    env, _ = real_rows
    torch.manual_seed(0)
    policy = nethack.Policy(env)
    torch.nn.init.normal_(policy.direction_head.score.weight)
    hidden = torch.randn(1, policy.hidden_size).expand(9, -1)
    glyphs = torch.full((9, 21, 79), policies.BLANK_GLYPH)
    blstats = torch.zeros(9, 27, dtype=torch.long)
    blstats[:, 0], blstats[:, 1] = 40, 10
    for place, (down, right) in enumerate(policies.DIRECTIONS):
        glyphs[place, 10 + down, 40 + right] = 25
    with torch.no_grad():
        surroundings = policy.near.embed(glyphs, policy.kinds, blstats)
        scores = policy.direction_head(hidden, surroundings)
    assert scores.shape == (9, 23)
    assert not scores[:, [0, *range(17, 23)]].any(), "MORE, UP, DOWN and so on are not directions"
    steps, runs = scores[:, 1:9], scores[:, 9:17]
    empty = steps[8, 0]
    assert (steps[8] == empty).all()
    for place in range(8):
        others = [other for other in range(8) if other != place]
        torch.testing.assert_close(steps[place, others], empty.expand(7))
        torch.testing.assert_close(steps[place, place], steps[0, 0])
        torch.testing.assert_close(runs[place, place], runs[0, 0])
    assert abs(steps[0, 0] - empty) > 1e-3
