"""Features of emulation that can be switched off, and hooks into it."""

import copy

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test
from toys import COMINGS_AND_GOINGS, Echo, Lives, Scripted, emulate, pair_game, vectorize

import pufferlib.vector
from pufferlib.emulation import GymnasiumPufferEnv, PettingZooPufferEnv, Postprocessor
from pufferlib.exceptions import APIUsageError, SpaceError, WorkerError
from pufferlib.wrappers import PadAgentSpaces, PettingZooTruncatedWrapper, TeamEnv

F32 = Box(-1, 1, (2,), np.float32)
MIXTURE = Dict(a=F32, b=Discrete(100))
SAMPLE = {"a": np.float32([0, 1]), "b": np.int64(3)}
BOTH = Tuple([Discrete(3, start=1), F32])
BACKENDS = ["serial", "multiprocessing"]


# -- switches -------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_observations_stay_as_they_are():
    env = emulate(Scripted(MIXTURE, [SAMPLE], BOTH, length=1), flatten_observations=False)
    assert env.observation_space is MIXTURE
    assert env.action_space.shape == (3,)
    assert env.reset()[0] is SAMPLE
    observation, *rest = env.step([2, 0, 0.5])
    assert observation is SAMPLE
    assert rest == [0.0, True, False, {}]
    (choice, numbers), *_ = env.env.received
    assert (choice, numbers.tolist()) == (3, [0, 0.5])


def test_actions_stay_as_they_are():
    env = emulate(Scripted(MIXTURE, [SAMPLE], BOTH), flatten_actions=False)
    assert env.action_space is BOTH
    assert env.reset()[0].dtype == np.uint8
    action = (1, np.float32([0, 1]))
    env.step(action)
    assert env.env.received == [action]
    assert env.env.received[0] is action


def test_unflattened_environments_are_copied_in_mid_episode():
    env = emulate(
        Scripted(MIXTURE, [SAMPLE], BOTH, length=2),
        flatten_observations=False,
        flatten_actions=False,
    )
    env.reset()
    env.step((1, np.float32([0, 1])))
    twin = copy.deepcopy(env)
    observation, *rest = twin.step((2, np.float32([0, 0])))
    assert (observation["b"], rest) == (3, [1.0, True, False, {}])
    assert [len(one.env.received) for one in (env, twin)] == [1, 2]


def test_spaces_of_no_fixed_size_pass_unflattened():
    texts = Scripted(Text(3), ["abc"], Text(2))
    with pytest.raises(SpaceError, match="Text is not supported"):
        emulate(texts, flatten_observations=False)
    env = emulate(texts, flatten_observations=False, flatten_actions=False)
    check_env(env, skip_render_check=True)
    env.reset()
    env.step("ok")
    assert env.env.received[-1] == "ok"


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        ("abc", "é", r"Scripted: action: expected a value of Text.* got 'é'"),
        ("abcd", "a", r"Scripted: observation: expected a value of Text.* got 'abcd'"),
    ],
)
def test_what_is_not_flattened_is_checked(observation, action, message):
    options = {"flatten_observations": False, "flatten_actions": False}
    texts = Scripted(Text(3), [observation], Text(2))

    def play(check):
        env = emulate(texts, **options, check=check)
        return env.reset()[0], env.step(action)[0]

    with pytest.raises(SpaceError, match=message):
        play("first")
    assert play("never") == (observation, observation)


def test_present_agents_alone_are_shown():
    env = PettingZooPufferEnv(Lives(COMINGS_AND_GOINGS), pad_agents=False)
    observations, infos = env.reset()
    assert (list(observations), list(infos), env.agents) == (["a", "b"], ["a", "b"], ["a", "b"])
    shown = []
    while env.agents:
        results = env.step(dict.fromkeys(env.agents, 1))
        (agents,) = {tuple(result) for result in results}
        shown.append(("".join(agents), "".join(env.agents)))
    # One that leaves is shown once more.
    assert shown == [("ab", "ab"), ("ab", "a"), ("ac", "ac"), ("ac", "")]
    parallel_api_test(PettingZooPufferEnv(Lives(COMINGS_AND_GOINGS), pad_agents=False), 20)


def test_agents_are_padded_with_zeros_of_any_space():
    space = Dict(a=Box(2, 3, (1,), np.float32), b=Text(3))

    class Telling(Lives):
        def observation_space(self, agent):
            return space

        def observe(self, agents):
            return {agent: {"a": np.float32([2.5]), "b": agent} for agent in agents}

    env = emulate(Telling(COMINGS_AND_GOINGS), flatten_observations=False)
    observations, _ = env.reset()
    assert [observations[agent]["b"] for agent in "ab"] == ["a", "b"]
    assert all(space.contains(seen) for seen in observations.values())
    assert observations["c"]["a"].tolist() == [2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("creator", "options", "named"),
    [
        (Echo, {"flatten_observations": False}, "flatten_observations=False; leave it on"),
        (Echo, {"flatten_actions": False}, "flatten_actions=False"),
        (pair_game, {"pad_agents": False}, "pad_agents=False"),
        (
            pair_game,
            {"flatten_actions": False, "pad_agents": False},
            "flatten_actions=False, pad_agents=False; leave them on",
        ),
    ],
)
def test_vectorization_refuses_what_has_no_rows(backend, creator, options, named):
    with pytest.raises(
        APIUsageError, match=f"expected flat rows of a constant number .* got {named}"
    ):
        pufferlib.vector.make(lambda: emulate(creator(), **options), backend=backend)


# -- hooks ----------------------------------------------------------------------------------------


class Halves(Postprocessor):
    """Shows half of the observation and the step, pays the reward's double plus the action."""

    def __init__(self, env, agent=None):
        super().__init__(env, agent)
        self.observation_space = Dict(half=Box(-1e6, 1e6, (2,), np.float32), step=Discrete(100))
        self.began, self.transitions = 0, []

    def reset(self):
        self.began += 1

    def features(self, observation, step):
        return {"half": observation / 2, "step": step}

    def reward(self, transition):
        self.transitions.append(transition)
        return 2 * transition.reward + transition.action


def test_observations_are_featurized_and_rewards_shaped():
    env = GymnasiumPufferEnv(Echo(7, length=2), postprocessor=Halves)
    shown = []
    for _ in range(2):
        row, _ = env.reset(seed=1, options={"level": 1})
        shown.append((env.observation_plan.decode(row), 0.0))
        while not env.done:
            row, reward, *_ = env.step(3)
            shown.append((env.observation_plan.decode(row), reward))
    numbers = [(seen["half"].tolist(), int(seen["step"]), reward) for seen, reward in shown]
    assert numbers == [([3.5, -0.5], 0, 0.0), ([3.5, 1.5], 1, 5.0), ([3.5, 1.5], 2, 5.0)] * 2
    postprocessor = env.env.postprocessor
    assert postprocessor.began == 2
    last = postprocessor.transitions[-1]
    assert (last.observation.tolist(), last.action, last.reward) == ([7, 3], 3, 1.0)
    assert (last.terminal, last.truncation, last.info, last.step) == (True, False, {}, 2)
    assert env.unwrapped.options == [{"level": 1}] * 2
    assert env.render() == "7:2"
    env.close()
    assert env.unwrapped.closes == 1


def test_a_postprocessor_changes_nothing_of_itself():
    plain, hooked = emulate(Echo(7)), emulate(Echo(7), postprocessor=Postprocessor)
    assert hooked.observation_space is plain.observation_space
    np.testing.assert_array_equal(hooked.reset()[0], plain.reset()[0])
    assert hooked.step(2)[1:] == plain.step(2)[1:]


@pytest.mark.parametrize("creator", [Echo, pair_game])
def test_features_are_held_to_their_space(creator):
    class Wrong(Halves):
        def features(self, observation, step):
            return {"half": observation, "step": 100 + step}

    env = emulate(creator(), postprocessor=Wrong)
    with pytest.raises(SpaceError, match=r"observation\['step'\]: expected values within Discrete"):
        env.reset()


@pytest.mark.parametrize("creator", [Echo, pair_game])
def test_a_postprocessed_reset_of_another_api_is_refused(creator):
    class Old(creator if isinstance(creator, type) else Lives):
        def reset(self, seed=None, options=None):
            return super().reset(seed=seed, options=options)[0]

    env = emulate(Old(*([] if creator is Echo else [pair_game().script, "ab"])))
    hooked = emulate(env.env, postprocessor=Postprocessor)
    with pytest.raises(APIUsageError, match=r"reset\(\): expected .* wrap it in pufferlib"):
        hooked.reset()


def test_every_life_has_its_own_postprocessing():
    lives = Lives(COMINGS_AND_GOINGS)
    env = emulate(lives, postprocessor=Halves)
    env.reset()
    for _ in range(4):
        rows, rewards, *_ = env.step({"a": 0, "b": 1, "c": 2})
    steps = {agent: int(env.observation_plan.decode(row)["step"]) for agent, row in rows.items()}
    assert steps == {"a": 4, "b": 0, "c": 1}  # b is absent
    assert rewards == {"a": 8.0, "b": 0.0, "c": 10.0}
    hooks = env.env.postprocessors
    assert {agent: hook.began for agent, hook in hooks.items()} == {"a": 1, "b": 1, "c": 1}
    b = hooks["b"].transitions
    assert [(t.step, t.terminal, t.observation.tolist()) for t in b] == [
        (1, False, [11, 1]),
        (2, True, [11, 2]),
    ]
    assert hooks["a"].agent == "a"


@pytest.mark.parametrize("backend", BACKENDS)
def test_postprocessed_environments_vectorize(backend):
    creator = lambda: emulate(Echo(4), postprocessor=Halves)  # noqa: E731
    with pufferlib.vector.make(creator, num_envs=2, backend=backend, copy=True) as vecenv:
        vecenv.reset()
        _, rewards, *_ = vecenv.step([0, 4])
        assert rewards.tolist() == [2, 6]
        assert vecenv.get_attr("ident") == [4, 4]
        assert [hook.began for hook in vecenv.get_attr("postprocessor")] == [1, 1]
        state = vecenv.get_state()
        vecenv.step([1, 1])
        vecenv.set_state(state)
        vecenv.recv()
        vecenv.step([1, 1])
        assert [len(hook.transitions) for hook in vecenv.get_attr("postprocessor")] == [2, 2]


# -- the flags of all -----------------------------------------------------------------------------


class AllAtOnce(Lives):
    """Its last step has flags for `__all__`, beside some of the agents' own."""

    def __init__(self, terminals, truncations):
        super().__init__([("ab", "", ""), ("ab", "", "")], possible="ab")
        self.last = terminals, truncations

    def step(self, actions):
        observations, rewards, _, _, infos = super().step(actions)
        return observations, rewards, *self.last, infos


@pytest.mark.parametrize(
    ("terminals", "truncations", "ends"),
    [
        ({"__all__": True}, {"__all__": False}, "tt"),
        ({"__all__": False}, {"__all__": True}, "cc"),
        ({}, {"a": False, "b": False, "__all__": True}, "cc"),
        ({"a": True, "__all__": True}, {"b": True, "__all__": False}, "tc"),
        ({"a": True, "__all__": False}, {"b": False, "__all__": True}, "tc"),
    ],
)
def test_flags_of_all_hold_for_whoever_has_none(terminals, truncations, ends):
    env = emulate(AllAtOnce(terminals, truncations))
    env.reset()
    _, _, terminal, truncated, _ = env.step({"a": 0, "b": 0})
    assert terminal == {"a": ends[0] == "t", "b": ends[1] == "t"}
    assert truncated == {"a": ends[0] == "c", "b": ends[1] == "c"}
    assert env.done


# -- what an environment can do itself ------------------------------------------------------------


class Maps(Echo):
    """Takes a new map with its reset, keeps it, and has a method for tasks."""

    maps, task = ("plain",), "walk"

    def reset(self, *, seed=None, options=None):
        self.maps += tuple((options or {}).get("maps", ()))
        return super().reset(seed=seed, options=options)

    def set_task(self, task, level=0):
        self.task = f"{task} {level}"
        return self.ident


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("features", [{}, {"postprocessor": Postprocessor}])
def test_maps_and_tasks_reach_the_environment(backend, features):
    creators = [lambda i=i: emulate(Maps(i), **features) for i in range(2)]
    with pufferlib.vector.make(creators, num_envs=2, backend=backend) as vecenv:
        vecenv.reset(options={"maps": ["hills"]})
        assert vecenv.call("set_task", "run", level=3, indices=[1]) == [1]
        assert vecenv.get_attr("task") == ["walk", "run 3"]
        assert vecenv.get_attr("maps") == [("plain", "hills")] * 2


class TaskLives(Lives):
    task = "walk"

    def reset(self, seed=None, options=None):
        self.asked = options
        return super().reset(seed=seed, options=options)

    def report(self):
        return self.task, self.unheard_of, self.asked


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("wrap", "features"),
    [
        (PettingZooTruncatedWrapper, {}),
        (PadAgentSpaces, {"postprocessor": Postprocessor}),
        (lambda env: TeamEnv(env, {"all": "ab"}), {}),
        (lambda env: env, {"postprocessor": Postprocessor, "teams": {"all": "ab"}}),
    ],
)
def test_attributes_and_options_pass_every_wrapper(backend, wrap, features):
    creator = lambda: emulate(wrap(TaskLives(pair_game().script, "ab")), **features)  # noqa: E731
    with pufferlib.vector.make(creator, num_envs=2, backend=backend) as vecenv:
        vecenv.reset(options={"level": 3})
        vecenv.set_attr("task", "run")
        vecenv.set_attr("unheard_of", 5)
        assert vecenv.call("report") == [("run", 5, {"level": 3})] * 2


@pytest.mark.parametrize("features", [{}, {"postprocessor": Postprocessor}])
def test_options_that_an_environment_does_not_take_are_refused(features):
    class Optionless(Echo):
        def reset(self, *, seed=None):
            return super().reset(seed=seed)

    with pytest.raises(APIUsageError, match="options=….* but the environment takes none"):
        emulate(Optionless(), **features).reset(options={"level": 1})
    with (
        vectorize(Optionless) as vecenv,
        pytest.raises(WorkerError, match="the environment takes none"),
    ):
        vecenv.reset(options={"level": 1})
