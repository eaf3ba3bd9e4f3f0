"""Pokemon Red: what is rewarded, where episodes begin and end; on a small game of our own."""

import io

import numpy as np
import pytest

from pufferlib.environments import pokemon_red
from pufferlib.environments.pokemon_red.progress import Amounts, Progress
from pufferlib.exceptions import ConfigError, EnvironmentSetupError

pytestmark = pytest.mark.slow

DOWN, LEFT, RIGHT, UP, A, B, START = range(7)
WORTH = {
    "tile_reward": 1.0,
    "map_reward": 10.0,
    "event_reward": 100.0,
    "badge_reward": 1_000.0,
}


@pytest.fixture
def state(tmp_path):
    """A saved state just after the console's own greeting."""
    env = pokemon_red.make_env()
    console = env.env.unwrapped.console
    console.tick(120, False)
    saved = io.BytesIO()
    console.save_state(saved)
    env.close()
    path = tmp_path / "state"
    path.write_bytes(saved.getvalue())
    return str(path)


@pytest.fixture
def env(state):
    env = pokemon_red.make_env(state=state, max_episode_steps=8, wait_max=0, **WORTH)
    env.reset(seed=0)
    yield env
    env.close()


def test_what_is_new_is_rewarded_once(env):
    actions = [RIGHT, LEFT, RIGHT, START, A, A, B, DOWN]
    steps = [env.step(action) for action in actions]
    assert [step[1] for step in steps] == [1, 0, 0, 10 + 1, 100, 100, 1_000, 1]
    assert [step[2:4] for step in steps] == [(False, False)] * 7 + [(False, True)]
    assert [step[4] for step in steps[:7]] == [{}] * 7
    assert steps[7][4] == {
        "tiles": 3,
        "maps": 1,
        "events": 2,
        "badges": 1,
        "caught": 0,
        "levels": 0,
        "episode_return": 1_213.0,
        "episode_length": 8,
    }


def test_an_episode_begins_where_the_state_was_saved(env):
    for action in (RIGHT, DOWN, START, A, B):
        env.step(action)
    env.reset()
    assert env.env.unwrapped.console.memory[0xD356] == 0, "no badge"
    assert env.step(RIGHT)[1] == 1, "a new tile again"


def test_a_seed_decides_how_long_an_episode_waits(state):
    env = pokemon_red.make_env(state=state, wait_max=1_000)
    divider = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        # A counter of the console, from which games draw their random numbers.
        divider.append([env.env.unwrapped.console.memory[0xFF04]])
        env.reset()
        divider[-1].append(env.env.unwrapped.console.memory[0xFF04])
    assert divider[0] == divider[1]
    assert len({*divider[0], *divider[2]}) == 4
    env.close()


class Memory(dict):
    """Bytes by address, zero where nothing was written."""

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self.get(address, 0) for address in range(key.start, key.stop)]
        return self.get(key, 0)


def test_progress_is_the_best_of_each_kind_since_the_beginning():
    # Six events, a badge, two kinds of Pokemon, and a party of two at levels 5 and 3 to begin with.
    memory = Memory({0xD747: 0b111, 0xD886: 0b111, 0xD356: 1, 0xD2F7: 0b11, 0xD163: 2})
    memory |= {0xD18C: 5, 0xD18C + 44: 3, 0xD18C + 88: 99}
    worth = Amounts(tiles=0, maps=0, events=1, badges=10, caught=100, levels=1_000)
    progress = Progress(memory, worth)
    assert progress.update() == 0
    memory |= {0xD18C: 7, 0xD309: 1, 0xD886: 0b1111}
    assert progress.update() == 2_000 + 100 + 1
    memory[0xD163] = 1  # the second is put away
    assert progress.update() == 0
    memory[0xD163] = 2
    assert progress.update() == 0
    assert progress.result() == Amounts(tiles=0, maps=0, events=1, badges=0, caught=1, levels=2)
    progress.begin()
    assert progress.result() == Amounts(0, 0, 0, 0, 0, 0)


def test_an_observation_has_the_last_screens_at_half_their_size(state):
    env = pokemon_red.make_env(state=state, framestack=2, render_mode="rgb_array")
    env.reset(seed=0)
    pictures = [env.render()]
    for _ in range(2):
        row = env.step(RIGHT)[0]
        pictures.append(env.render())
    assert pictures[2].shape == (144, 160, 3)
    assert np.array_equal(row, [picture[::2, ::2, 0] for picture in pictures[1:]])
    assert (row[0] != row[1]).any(), "the hero has moved"
    env.close()


def test_nothing_is_written_beside_the_cartridge(cartridge):
    env = pokemon_red.make_env()
    env.reset(seed=0)
    env.close()
    assert list(cartridge.parent.iterdir()) == [cartridge]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frame_skip": 8}, "frame_skip above the 8 frames that a button is pressed, got 8"),
        ({"state": "nowhere.state"}, "the file of a saved state, got 'nowhere.state'"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        pokemon_red.make_env(**options)


@pytest.mark.parametrize("options", [{}, {"rom": "nowhere.gb"}])
def test_a_missing_cartridge_is_asked_for(options, monkeypatch):
    monkeypatch.delenv("POKEMON_RED_ROM")
    given = options.get("rom", "")
    with pytest.raises(EnvironmentSetupError, match=f"got '{given}'.*export POKEMON_RED_ROM=FILE"):
        pokemon_red.make_env(**options)
