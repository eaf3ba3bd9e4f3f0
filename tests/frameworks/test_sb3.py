"""Stable-Baselines3 takes our environments and policies for its own."""

import functools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from masked_toys import Picky
from toys import Echo, Scripted, pair_game

pytest.importorskip("sb3_contrib")  # images do not have it

from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv
from pufferlib.environments import ocean
from pufferlib.exceptions import APIUsageError
from pufferlib.frameworks.sb3 import Policy, SB3VecEnv
from pufferlib.frameworks.sb3_contrib import MaskablePolicy, RecurrentPolicy
from pufferlib.models import Default, LSTMWrapper, MinGRUWrapper
from pufferlib.postprocess import EpisodeStats
from pufferlib.vector import SameStep, make


def cart_pole():
    return gymnasium.make("CartPole-v1", max_episode_steps=20, render_mode="rgb_array")


def emulate_cart_pole():
    return GymnasiumPufferEnv(EpisodeStats(cart_pole()))


def envs_of(creator, n=2, **options):
    return SB3VecEnv(make(SameStep(creator), num_envs=n, **options))


def test_it_equals_their_own():
    """Observations, rewards, ends and infos, from a seed and on."""
    theirs = DummyVecEnv([lambda: Monitor(cart_pole())] * 3)
    ours = envs_of(emulate_cart_pole, 3)
    rng = np.random.default_rng(0)
    for envs in (theirs, ours):
        envs.seed(5)
    np.testing.assert_array_equal(ours.reset(), theirs.reset())
    truncations = []
    for _ in range(60):
        actions = rng.integers(0, 2, 3)
        expected, got = theirs.step(actions), ours.step(actions)
        for array, other in zip(got[:3], expected[:3], strict=True):
            assert array.dtype == other.dtype
            np.testing.assert_array_equal(array, other)
        for row in np.flatnonzero(got[2]):
            info, other = got[3][row], expected[3][row]
            np.testing.assert_array_equal(
                info["terminal_observation"], other["terminal_observation"]
            )
            assert info["TimeLimit.truncated"] == other["TimeLimit.truncated"]
            assert info["episode"] == {"r": other["episode"]["r"], "l": other["episode"]["l"]}
            truncations.append(info["TimeLimit.truncated"])
        assert all(got[3][row] == {} for row in np.flatnonzero(~got[2]))
    assert set(truncations) == {True, False}
    ours.close()


def test_their_policy_learns_the_same_weights():
    """From the same seed, over our environments as over theirs."""
    results = []
    for envs in (DummyVecEnv([cart_pole] * 2), envs_of(emulate_cart_pole)):
        model = PPO("MlpPolicy", envs, n_steps=64, batch_size=32, n_epochs=2, seed=3, device="cpu")
        model.learn(256)
        results.append(torch.nn.utils.parameters_to_vector(model.policy.parameters()))
        envs.close()
    assert torch.equal(*results)


@pytest.mark.parametrize("backend", ["serial", "multiprocessing"])
def test_environments_are_reached_by_row(backend):
    envs = envs_of(emulate_cart_pole, 2, backend=backend)
    envs.set_attr("gravity", 1.5, indices=1)
    assert envs.get_attr("gravity") == [9.8, 1.5]
    assert envs.env_method("class_name", indices=[0]) == ["EpisodeStats"]
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit) == [True, True]
    assert envs.env_is_wrapped(Monitor, indices=0) == [False]
    assert not envs.has_attr("action_masks")
    envs.reset()
    assert envs.render().shape == (800, 600, 3)
    envs.close()


def test_agents_are_rows():
    envs = envs_of(lambda: PettingZooPufferEnv(pair_game(length=2)))
    envs.seed(3)
    envs.set_options({"level": 1})
    observations = envs.reset()
    assert envs.num_envs == len(observations) == 4
    assert len(envs.get_attr("possible_agents")) == 4
    assert len(envs.env_method("observation_space", "a", indices=[0, 1])) == 2
    envs.step(np.zeros(4, np.int64))
    *_, dones, infos = envs.step(np.zeros(4, np.int64))
    assert dones.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [False] * 4


def test_seeds_and_options_go_to_the_next_reset_only():
    envs = envs_of(lambda: GymnasiumPufferEnv(Echo()))
    envs.seed(7)
    envs.set_options({"level": 1})
    envs.reset()
    envs.reset()
    assert [seeds[0] for seeds in envs.get_attr("seeds")] == [7, 8]
    assert envs.get_attr("options") == [[{"level": 1}, None]] * 2
    envs.set_options([{"level": 1}, {"level": 2}])
    with pytest.raises(APIUsageError, match="set_options: expected the same"):
        envs.reset()


def test_rows_are_copies_and_a_monitor_fits_around():
    envs = VecMonitor(envs_of(lambda: GymnasiumPufferEnv(Echo(length=3, truncates=True))))
    first = envs.reset()
    kept = first.copy()
    for _ in range(3):
        *_, dones, infos = envs.step(np.ones(2, np.int64))
    np.testing.assert_array_equal(first, kept)
    assert dones.tolist() == [True, True]
    assert (infos[0]["episode"]["r"], infos[0]["episode"]["l"]) == (3, 3)


def test_what_it_cannot_train_on_is_refused():
    with pytest.raises(APIUsageError, match=r"vector.SameStep\(creator\)"):
        SB3VecEnv(make(emulate_cart_pole))
    with pytest.raises(APIUsageError, match="batches of all 4 agents, got 2"):
        envs_of(emulate_cart_pole, 4, batch_size=2)
    envs = envs_of(emulate_cart_pole)
    policy = Default(envs.vecenv.driver_env, 8)
    with pytest.raises(APIUsageError, match="with memory for RecurrentPolicy, got Default"):
        RecurrentPPO(RecurrentPolicy, envs, policy_kwargs={"policy": policy})
    recurrent = LSTMWrapper(envs.vecenv.driver_env, policy, 8, 8)
    with pytest.raises(APIUsageError, match="without memory for Policy, got LSTMWrapper"):
        PPO(Policy, envs, policy_kwargs={"policy": recurrent})


def test_their_policies_are_refused_where_rows_are_bytes():
    """Not where a structure has numbers of one kind, which are their features."""
    plain, bytes_ = (envs_of(ocean_like(dtypes)) for dtypes in (["f4", "f4"], ["f4", "u1"]))
    assert PPO("MlpPolicy", plain, n_steps=8, batch_size=8, device="cpu").learn(16)
    for algorithm, name in ((PPO, "MlpPolicy"), (RecurrentPPO, "MlpLstmPolicy")):
        with pytest.raises(APIUsageError, match=r"frameworks\.sb3\.Policy"):
            algorithm(name, bytes_, device="cpu")
    assert bytes_.observation_space == bytes_.vecenv.single_observation_space


def ocean_like(dtypes):
    """Two observations of these kinds, in a Dict."""
    space = gymnasium.spaces.Dict({f"part{i}": Box(0, 1, (2,), d) for i, d in enumerate(dtypes)})
    sample = {name: np.zeros(2, part.dtype) for name, part in space.items()}
    return lambda: GymnasiumPufferEnv(Scripted(space, [sample]))


def test_policies_of_ones_own_say_what_their_memory_is():
    class Mine(torch.nn.Module):
        def forward(self, observations, state=None, starts=None):
            raise AssertionError("never called")

    envs = envs_of(emulate_cart_pole)
    with pytest.raises(APIUsageError, match=r"\['parts', 'num_layers', 'hidden_size'\] in Mine"):
        RecurrentPPO(RecurrentPolicy, envs, policy_kwargs={"policy": Mine()}, device="cpu")
    three = Mine()
    three.parts, three.num_layers, three.hidden_size = 3, 1, 8
    with pytest.raises(APIUsageError, match="a state of 3 tensors in Mine"):
        RecurrentPPO(RecurrentPolicy, envs, policy_kwargs={"policy": three}, device="cpu")


def test_order_and_closing():
    envs = envs_of(functools.partial(make_picky, 0))
    with pytest.raises(APIUsageError, match="action_masks: expected a reset"):
        envs.env_method("action_masks")
    envs.reset()
    with pytest.raises(APIUsageError, match="out of order"):
        envs.step_wait()
    assert envs.env_method("class_name", indices=iter([1, 0])) == ["EpisodeStats"] * 2
    envs.close()
    envs.close()
    for call in (envs.reset, functools.partial(envs.step, np.zeros(2, np.int64))):
        with pytest.raises(APIUsageError, match="closed"):
            call()


def test_one_environment_is_evaluated_by_their_own_function():
    """Which needs rows, ends and statistics of a single row."""
    envs = envs_of(lambda: GymnasiumPufferEnv(EpisodeStats(Echo(length=3))), 1)
    model = PPO(
        Policy, envs, policy_kwargs={"policy": Default(envs.vecenv.driver_env, 8)}, device="cpu"
    )
    assert evaluate_policy(model, envs, n_eval_episodes=2, warn=False) == (3, 0)


ACTIONS = {
    "choice": Discrete(3),
    "counted from five": Discrete(3, start=5),
    "choices": MultiDiscrete([2, 3]),
    "bits": MultiBinary(3),
    "values": Box(-1, 1, (2,), np.float32),
    "mixed": gymnasium.spaces.Dict({"a": Discrete(3), "b": Box(-1, 1, (2,), np.float32)}),
}


@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_a_policy_acts_and_is_evaluated(space, tmp_path):
    row = np.zeros(2, np.float32)
    envs = envs_of(lambda: GymnasiumPufferEnv(Scripted(row_space(), [row], space)))
    policy = Default(envs.vecenv.driver_env, 8)
    model = PPO(
        Policy, envs, n_steps=8, batch_size=8, policy_kwargs={"policy": policy}, device="cpu"
    )
    rows = torch.randn(5, 2)
    actions, values, logprobs = model.policy(rows)
    assert actions.shape == (5, *envs.action_space.shape)
    again = model.policy.evaluate_actions(rows, actions)
    torch.testing.assert_close(again[0], policy(rows)[1])
    torch.testing.assert_close(again[1], logprobs)
    likeliest = model.policy.get_distribution(rows).get_actions(deterministic=True)
    greedy, _ = model.predict(rows.numpy(), deterministic=True)
    np.testing.assert_array_equal(greedy, likeliest.detach().numpy())
    model.learn(32)
    received = [action for taken in envs.get_attr("received") for action in taken]
    assert len(received) == 32
    assert all(space.contains(action) for action in received)
    assert model.policy.policy is not policy
    model.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", device="cpu")
    torch.testing.assert_close(
        loaded.policy.predict_values(rows), model.policy.predict_values(rows)
    )


def row_space():
    return Box(-1e6, 1e6, (2,), np.float32)


@pytest.mark.parametrize("wrapper", [LSTMWrapper, MinGRUWrapper])
def test_a_memory_is_trained_from_the_states_it_had(wrapper):
    """Evaluated again before any update, a rollout's actions are as likely as when taken."""
    torch.manual_seed(0)
    envs = envs_of(emulate_cart_pole, 3)
    policy = wrapper(envs.vecenv.driver_env, Default(envs.vecenv.driver_env, 8), 8, 8, 2)
    model = RecurrentPPO(
        RecurrentPolicy,
        envs,
        n_steps=40,
        batch_size=30,
        n_epochs=1,
        policy_kwargs={"policy": policy},
        seed=0,
        device="cpu",
    )
    checked = []

    def compare():
        for data in model.rollout_buffer.get(30):
            values, logprobs, _ = model.policy.evaluate_actions(
                data.observations, data.actions.flatten(), data.lstm_states, data.episode_starts
            )
            mask = data.mask > 0
            torch.testing.assert_close(logprobs[mask], data.old_log_prob[mask])
            torch.testing.assert_close(values.flatten()[mask], data.old_values[mask])
            checked.append(int(mask.sum()))

    model.train = compare
    model.learn(240)
    assert sum(checked) == 240
    assert model.rollout_buffer.episode_starts[1:].any()
    actions, states = model.predict(envs.reset())
    assert actions.shape == (3,)
    assert [part.shape for part in states] == [(2, 3, 8)] * 2
    assert np.abs(states[0]).sum() > 0


class Blind(torch.nn.Module):
    """Does not look at the mask in its observations."""

    def __init__(self, env):
        super().__init__()
        self.policy = Default(env, 16)
        self.policy.mask_layout = None

    def forward(self, observations):
        return self.policy(observations)


@pytest.mark.parametrize("choices", [0, 2])
def test_masks_in_observations_are_obeyed(choices):
    """The environment raises at an action that its mask rules out."""
    creator = functools.partial(make_picky, choices)
    envs = envs_of(creator)
    options = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "device": "cpu"}
    blind = Blind(envs.vecenv.driver_env)
    model = MaskablePPO(MaskablePolicy, envs, policy_kwargs={"policy": blind}, **options)
    model.learn(128)
    masks = np.stack(envs.env_method("action_masks"))
    assert masks.dtype == bool
    assert masks.reshape(2, -1, 8).sum(-1).tolist() == [[2] * max(choices, 1)] * 2
    actions, _ = model.predict(model._last_obs, action_masks=masks, deterministic=True)
    envs.step(actions)
    sees = Default(envs.vecenv.driver_env, 16)
    PPO(Policy, envs, policy_kwargs={"policy": sees}, **options).learn(64)


def make_picky(choices):
    return GymnasiumPufferEnv(EpisodeStats(Picky(choices)))


def learn(envs, algorithm, steps, **options):
    """Train and return the mean return of the last hundred episodes."""
    model = algorithm(env=envs, learning_rate=5e-3, seed=1, device="cpu", **options)
    model.learn(steps)
    return np.mean([episode["r"] for episode in model.ep_info_buffer])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("spaces", 12_000), ("multiagent", 6_000)])
def test_ocean_is_learnt(name, steps):
    torch.manual_seed(1)
    envs = envs_of(ocean.env_creator(name), 64)
    options = {"n_steps": 512 // envs.num_envs, "batch_size": 256, "n_epochs": 4}
    policy = Default(envs.vecenv.driver_env, 64)
    assert learn(envs, PPO, steps, policy=Policy, policy_kwargs={"policy": policy}, **options) > 0.9


@pytest.mark.slow
def test_memory_is_learnt():
    torch.manual_seed(1)
    envs = envs_of(ocean.env_creator("memory"), 32)
    env = envs.vecenv.driver_env
    score = learn(
        envs,
        RecurrentPPO,
        50_000,
        policy=RecurrentPolicy,
        policy_kwargs={"policy": LSTMWrapper(env, Default(env, 32), 32, 32)},
        n_steps=32,
        batch_size=512,
        n_epochs=2,
        ent_coef=0.02,
    )
    assert score > 0.9
