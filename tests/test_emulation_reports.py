"""Public reports about spaces and data in other libraries (O07 to O15), and O17, as tests.

Each runs its input on an emulated environment alone and in a vecenv. Named by the report's number.
"""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from toys import Echo, GlobalRandom, OwnRandom, Scripted, acting, emulate, vectorize

from pufferlib.exceptions import APIUsageError, SpaceError, WorkerError
from pufferlib.pytorch import nativize_dtype, nativize_tensor
from pufferlib.spaces import Mixed

BACKENDS = ["serial", "multiprocessing"]
F32 = Box(-1, 1, (2,), np.float32)
U8 = Box(0, 255, (2,), np.uint8)
ZERO = np.zeros(2, np.float32)


def received(space, *rows):
    """What an environment with this action space is given for `rows`, alone and in a vecenv."""
    env = emulate(acting(space))
    env.reset()
    for row in rows:
        env.step(row)
    with vectorize(lambda: acting(space), n=2) as vecenv:
        vecenv.reset()
        for row in rows:
            vecenv.step(np.stack([row, row]))
        first, second = vecenv.get_attr("received")
    assert len(env.env.received) == len(first) == len(second) == len(rows)
    for alone, *others in zip(env.env.received, first, second, strict=True):
        for other in others:
            assert repr(other) == repr(alone)
    return first


def shown(space, *observations):
    """The rows of an environment that shows `observations`, alone and in a vecenv."""
    env = emulate(Scripted(space, observations))
    alone = [env.reset()[0]] + [env.step(0)[0] for _ in observations[1:]]
    with vectorize(lambda: Scripted(space, observations), n=2, copy=True) as vecenv:
        rows = [vecenv.reset()[0]] + [vecenv.step([0, 0])[0] for _ in observations[1:]]
    np.testing.assert_array_equal(np.stack(rows), np.stack([np.stack([a, a]) for a in alone]))
    return env, alone


def refused(space, observations, message, steps=0, **options):
    """`observations` raise SpaceError at the reset or the last step, alone and in a vecenv."""
    env = emulate(Scripted(space, observations), **options)

    def play():
        env.reset()
        for _ in range(steps):
            env.step(0)

    with pytest.raises(SpaceError, match=message):
        play()
    with vectorize(lambda: Scripted(space, observations)) as vecenv:
        if not options:
            with pytest.raises(WorkerError, match=message):
                [vecenv.reset()] + [vecenv.step([0]) for _ in range(steps)]


# -- O07: choices that do not start at 0 ---------------------------------------------------------


def test_o07_discrete_start_is_added_to_actions():
    actions = received(Discrete(3, start=3), 0, 2)
    assert actions == [3, 5]
    assert {type(action) for action in actions} == {int}
    assert emulate(acting(Discrete(3, start=3))).single_action_space == Discrete(3)


def test_o07_discrete_start_inside_other_spaces():
    space = Dict(
        a=Discrete(3, start=3),
        b=Tuple([Discrete(2), Discrete(2, start=-1)]),
        c=MultiDiscrete([2, 3], start=[1, 10]),
    )
    assert emulate(acting(space)).single_action_space == MultiDiscrete([3, 2, 2, 2, 3])
    first, last = received(space, [0, 0, 0, 0, 0], [2, 1, 1, 1, 2])
    assert (first["a"], first["b"], first["c"].tolist()) == (3, (0, -1), [1, 10])
    assert (last["a"], last["b"], last["c"].tolist()) == (5, (1, 0), [2, 12])
    assert [type(value) for value in (last["a"], *last["b"])] == [int] * 3


def test_o07_multidiscrete_start():
    assert [a.tolist() for a in received(MultiDiscrete([2, 3], start=[5, -1]), [0, 0], [1, 2])] == [
        [5, -1],
        [6, 1],
    ]


def test_o07_observations_keep_their_real_values():
    env, rows = shown(Discrete(3, start=3), 3, 5, 4)
    assert rows == [3, 5, 4]
    assert env.emulated is None
    _, rows = shown(Tuple([Discrete(3, start=3), Discrete(2)]), (3, 0), (5, 1))
    assert [row.tolist() for row in rows] == [[3, 0], [5, 1]]


# -- O08: order and presence of keys -------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_o08_dict_entries_are_paired_by_name(backend):
    space = Dict({"b": Discrete(5), "a": Discrete(5)})
    orders = [{"a": 2, "b": 1}, {"b": 1, "a": 2}]
    with vectorize(lambda: Scripted(space, orders), backend=backend, copy=True) as vecenv:
        rows = [vecenv.reset()[0], vecenv.step([0])[0]]
        names = vecenv.emulated.observation_dtype.names
    assert [dict(zip(names, row[0].tolist(), strict=True)) for row in rows] == [
        {"a": 2, "b": 1}
    ] * 2


def test_o08_the_layout_is_the_spaces():
    for keys in (["b", "a"], ["a", "b"]):
        space = Dict([(key, Discrete(5)) for key in keys])
        assert emulate(Scripted(space, [])).emulated.observation_dtype.names == tuple(space.spaces)


def test_o08_keys_may_be_numbers_and_text():
    space = Dict([("x", Discrete(5)), (7, Discrete(5))])
    env, (row,) = shown(space, {7: 3, "x": 4})
    assert env.emulated.observation_dtype.names == ("x", "7")
    assert row.tolist() == [4, 3]


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ({"a": 1}, r"Scripted: observation: expected keys \['a', 'b'\], got missing \['b'\]"),
        ({"a": 1, "b": 2, "c": 3}, r"got missing \[\] and extra \['c'\]"),
        ({"a": 1, "d": 2}, r"got missing \['b'\] and extra \['d'\]"),
    ],
)
def test_o08_a_missing_or_extra_key_is_an_error_at_any_step(later, message):
    space = Dict(a=Discrete(5), b=Discrete(5))
    good = {"a": 1, "b": 1}
    refused(space, [later], message)
    refused(space, [good, good, good, later], message, steps=3)


# -- O09: dtype and range ------------------------------------------------------------------------


def test_o09_float64_for_float32_is_rounded_with_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = emulate(Scripted(F32, [np.array([0.1, 0.2])]))
        rows = [env.reset()[0], env.step(0)[0], env.step(0)[0]]
    assert [str(w.message) for w in caught] == [
        "Scripted: observation: the space says float32, the environment gives float64; "
        "values are rounded to the space's dtype"
    ]
    for row in rows:
        assert row.dtype == np.float32
        np.testing.assert_array_equal(row, np.float32([0.1, 0.2]))


def test_o09_integers_never_wrap_round():
    good = np.uint8([1, 2])
    for bad in ([300, -1], np.array([300, -1]), np.array([256.0, 0])):
        refused(
            U8, [good, good, good, bad], "Scripted: observation: .*uint8.* to (300|256)", steps=3
        )


def test_o09_lists_are_fine():
    _, rows = shown(U8, [1, 2], (3, 4))
    assert [(row.tolist(), row.dtype) for row in rows] == [([1, 2], np.uint8), ([3, 4], np.uint8)]


def test_o09_a_wrong_shape_names_both_at_any_step():
    refused(F32, [ZERO, ZERO, ZERO, np.zeros(3, np.float32)], r"shape \(2,\), got shape \(3,\)", 3)


OUT = np.array([0, 2], np.float32)


@pytest.mark.parametrize(
    ("check", "observations", "raises_at"),
    [
        ("first", [OUT], 0),
        ("first", [ZERO, OUT], 1),
        ("first", [ZERO, ZERO, OUT], None),
        ("always", [ZERO, ZERO, OUT], 2),
        ("always", [OUT], 0),
        ("never", [OUT, OUT], None),
    ],
)
def test_o09_bounds_are_checked_when_asked(check, observations, raises_at):
    env = emulate(Scripted(F32, observations), check=check)
    calls = [env.reset] + [lambda: env.step(0)] * 4
    for call in calls[:raises_at]:
        call()
    if raises_at is not None:
        with pytest.raises(SpaceError, match=r"observation: expected values within Box.* to 2.0"):
            calls[raises_at]()


def test_o09_always_includes_resets_and_actions():
    env = emulate(Scripted(F32, [ZERO, ZERO, ZERO], Discrete(2)), check="always")
    env.reset()
    env.step(0)
    with pytest.raises(SpaceError, match="Scripted: action: expected a value from 0 to 1, got 2"):
        env.step(2)
    env.env.observations = [OUT]
    with pytest.raises(SpaceError, match="expected values within"):
        env.reset()


def test_o09_an_unknown_check_is_refused():
    with pytest.raises(APIUsageError, match="expected 'first', 'always' or 'never', got 'often'"):
        emulate(Echo(), check="often")


# -- O10: scalars and ranks ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "values", "row_type"),
    [
        (Discrete(7), [3, np.int64(4), np.array(5), np.array([6]), np.int8(1)], np.int64),
        (Box(-1, 1, (), np.float32), [np.float32(0.5), 0.25, np.array([-1.0]), 1], np.float32),
        (Box(0, 9, (1,), np.int32), [3, [4], np.int32(5)], np.int32),
    ],
)
def test_o10_scalar_observations(space, values, row_type):
    env, rows = shown(space, *values)
    assert env.single_observation_space is space
    for row, value in zip(rows, values, strict=True):
        assert row.dtype == row_type
        assert row.shape == space.shape
        assert float(np.ravel(row)[0]) == float(np.ravel(value)[0])


@pytest.mark.parametrize(
    "action", [2, [2], (2,), np.int64(2), np.array(2), np.array([[2]]), torch.tensor(2), True + 1]
)
def test_o10_actions_of_any_rank_arrive_as_a_number(action):
    env = emulate(acting(Discrete(3)))
    env.reset()
    env.step(action)
    assert env.env.received == [2]
    assert type(env.env.received[0]) is int


@pytest.mark.parametrize(
    "actions",
    [[1, 2], np.array([1, 2]), np.array([[1], [2]]), torch.tensor([1, 2]), np.int8([1, 2])],
)
def test_o10_batches_of_any_rank_arrive_as_numbers(actions):
    with vectorize(lambda: acting(Discrete(3)), n=2) as vecenv:
        vecenv.reset()
        vecenv.step(actions)
        assert vecenv.get_attr("received") == [[1], [2]]


def test_o10_a_scalar_box_action_arrives_with_its_shape():
    (action,) = received(Box(-1, 1, (), np.float32), np.float32(0.5))
    assert (action.shape, action.dtype, float(action)) == ((), np.float32, 0.5)


@pytest.mark.parametrize(
    ("space", "action", "message"),
    [
        (Discrete(3), [1, 2], r"action: expected shape \(\), got shape \(2,\)"),
        (MultiDiscrete([2, 2]), 1, r"action: expected shape \(2,\), got shape \(\)"),
        (F32, np.zeros(3), r"action: expected shape \(2,\), got shape \(3,\)"),
        (Discrete(3), 1.0, "action: expected dtype int64, got float64"),
        (Box(0, 255, (1,), np.uint8), [300], "action: expected values within uint8"),
        (Discrete(3), 3, "Scripted: action: expected a value from 0 to 2, got 3"),
        (F32, [0, 1.5], "expected a value from -1.0 to 1.0, got 1.5; clip actions"),
    ],
)
def test_o10_actions_that_do_not_fit_are_refused(space, action, message):
    env = emulate(acting(space))
    env.reset()
    with pytest.raises(SpaceError, match=message):
        env.step(action)
    assert env.env.received == []


# -- O11: choices in several dimensions ----------------------------------------------------------


def test_o11_two_dimensional_multidiscrete():
    space = MultiDiscrete([[2, 3], [4, 5]])
    assert emulate(acting(space)).single_action_space == MultiDiscrete([2, 3, 4, 5])
    (action,) = received(space, [1, 2, 3, 4])
    assert action.tolist() == [[1, 2], [3, 4]]
    assert action.dtype == space.dtype
    env, (row,) = shown(space, np.array([[1, 2], [3, 4]]))
    assert row.tolist() == [[1, 2], [3, 4]]
    assert env.single_observation_space is space


# -- O12: every space, or a reason ---------------------------------------------------------------


def test_o12_a_tuple_of_discretes():
    env, rows = shown(Tuple([Discrete(32), Discrete(11), Discrete(2)]), (20, 10, 1), (4, 1, 0))
    assert [row.tolist() for row in rows] == [[20, 10, 1], [4, 1, 0]]
    assert env.single_observation_space.dtype == np.int64


def test_o12_multibinary():
    space = MultiBinary((2, 3))
    bits = np.int8([[1, 0, 1], [0, 1, 0]])
    env, (row,) = shown(space, bits)
    assert env.single_observation_space is space
    np.testing.assert_array_equal(row, bits)
    (action,) = received(space, [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(action, bits)
    assert action.dtype == np.int8


def test_o12_choices_and_numbers_together():
    space = Tuple([Box(-1, 1, (2,), np.float32), Discrete(4, start=1)])
    env = emulate(acting(space))
    assert env.single_action_space == Mixed([4], [-1, -1], [1, 1])
    ((values, choice),) = received(space, np.float32([3, 0.5, -0.25]))
    assert (values.tolist(), choice) == ([0.5, -0.25], 4)
    assert type(choice) is int


@pytest.mark.parametrize("role", ["observation", "action"])
@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Dict(h=F32, s=spaces.Sequence(F32)), r"\['s'\]: Sequence is not supported"),
        (Tuple([Discrete(2), Dict(g=spaces.Graph(F32, None))]), r"\[1\]\['g'\]: Graph is not"),
        (spaces.Text(4), ": Text is not supported"),
        (Dict(o=spaces.OneOf([F32, U8])), r"\['o'\]: OneOf is not supported"),
    ],
)
def test_o12_unsupported_spaces_are_refused_at_construction(role, space, message):
    env = Scripted(space, []) if role == "observation" else acting(space)
    with pytest.raises(SpaceError, match=f"Scripted: {role}{message}"):
        emulate(env)


# -- O13: live views -----------------------------------------------------------------------------

MIXTURE = Dict(a=F32, b=Discrete(100))


def moving():
    return Scripted(MIXTURE, [{"a": np.float32([i / 8] * 2), "b": i} for i in range(4)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("copied", [False, True])
def test_o13_results_are_live_views_unless_copied(backend, copied):
    with vectorize(moving, n=2, backend=backend, copy=copied) as vecenv:
        observations = vecenv.reset()[0]
        dtype = nativize_dtype(vecenv.emulated)
        unpacked = nativize_tensor(torch.from_numpy(observations), dtype)
        kept = observations.copy()
        assert unpacked["b"].tolist() == [0, 0]
        vecenv.step([0, 0])
        assert np.array_equal(observations, kept) == copied
        assert unpacked["b"].tolist() == ([0, 0] if copied else [1, 1])
        assert nativize_tensor(torch.from_numpy(kept), dtype)["b"].tolist() == [0, 0]


def test_o13_an_environment_alone_returns_copies():
    env = emulate(moving())
    first = env.reset()[0]
    kept = first.copy()
    env.step(0)
    np.testing.assert_array_equal(first, kept)


# -- O14: randomness -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_o14_environments_draw_apart_and_reproducibly(backend):
    def play(seed):
        with vectorize(OwnRandom, n=4, backend=backend, num_workers=2, copy=True) as vecenv:
            return np.stack([vecenv.reset(seed)[0]] + [vecenv.step([0] * 4)[0] for _ in range(3)])

    first = play(seed=5)
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(play(seed=5), first)
    assert not np.intersect1d(play(seed=6), first).size


@pytest.mark.filterwarnings("ignore:num_workers=4 is more than")
def test_o14_global_generators_differ_between_workers():
    def play(seed):
        options = {"backend": "multiprocessing", "num_workers": 4, "copy": True, "seed": seed}
        with vectorize(GlobalRandom, n=4, **options) as vecenv:
            return np.concatenate([vecenv.reset()[0], vecenv.step([0] * 4)[0]])

    first = play(seed=5)
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(play(seed=5), first)


def test_o14_serial_leaves_the_callers_generators_alone():
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random(4)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    with vectorize(OwnRandom, n=2) as vecenv:
        vecenv.reset(seed=1)
        vecenv.step([0, 0])
    np.testing.assert_array_equal(np.random.random(4), expected)  # noqa: NPY002


# -- O15: older signatures -----------------------------------------------------------------------


class ObservationOnly(Echo):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0]  # of length 2, as (observation, info)


class PairOnly(ObservationOnly):
    observation_space = Tuple([Discrete(2), Discrete(2)])

    def reset(self, *, seed=None, options=None):
        return (1, 0)


class FourTuple(Echo):
    def step(self, action):
        observation, reward, terminal, _, info = super().step(action)
        return observation, reward, terminal, info


class Seedless(Echo):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize("cls", [ObservationOnly, PairOnly])
def test_o15_a_reset_without_info_is_detected(cls):
    with pytest.raises(
        APIUsageError, match=r"reset\(\): expected \(observation, info\).*GymToGymn"
    ):
        emulate(cls()).reset()
    with vectorize(cls) as vecenv, pytest.raises(WorkerError, match="GymToGymnasium"):
        vecenv.reset()


def test_o15_a_four_tuple_is_detected():
    env = emulate(FourTuple())
    env.reset()
    with pytest.raises(
        APIUsageError, match=r"step\(\): expected .*, got tuple of 4; .*GymToGymnas"
    ):
        env.step(0)
    with vectorize(FourTuple) as vecenv:
        vecenv.reset()
        with pytest.raises(WorkerError, match="got tuple of 4"):
            vecenv.step([0])


def test_o15_a_reset_without_seed_is_detected_at_construction():
    with pytest.raises(APIUsageError, match=r"got a reset without seed; .*GymToGymnasium"):
        emulate(Seedless())
    with pytest.raises(WorkerError, match="reset without seed"):
        vectorize(Seedless)


def test_o15_options_for_an_environment_without_them_are_refused():
    class NoOptions(Echo):
        def reset(self, seed=None):
            return super().reset(seed=seed)

    env = emulate(NoOptions())
    env.reset(seed=1)
    with pytest.raises(APIUsageError, match=r"reset\(options=…\) was called"):
        env.reset(options={})


class Buggy(Echo):
    def reset(self, *, seed=None, options=None):
        self.resets += 1
        raise TypeError("reset() got an unexpected keyword argument 'seed'")


def test_o15_a_type_error_inside_reset_is_the_users_own():
    env = emulate(Buggy())
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        env.reset(seed=1)
    assert env.env.resets == 1
    with vectorize(Buggy) as vecenv, pytest.raises(WorkerError, match="raised TypeError in reset"):
        vecenv.reset()


# -- O17: both ways to end ----------------------------------------------------------------------


@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_o17_both_flags_end_an_episode_and_are_told_apart(truncates, backend):
    with vectorize(lambda: Echo(length=3, truncates=truncates), 2, backend) as vecenv:
        vecenv.reset()
        flags, clocks = [], []
        for _ in range(9):
            _, _, terminals, truncations, _ = vecenv.step([0, 0])
            flags.append((terminals.tolist(), truncations.tolist()))
            clocks.append(vecenv.get_attr("clock"))
        resets = vecenv.get_attr("resets")
    no, yes = [False] * 2, [True] * 2
    last = (no, yes) if truncates else (yes, no)
    assert flags == [
        (no, no),
        (no, no),
        last,
        (no, no),
        (no, no),
        (no, no),
        last,
        (no, no),
        (no, no),
    ]
    assert clocks == [[t, t] for t in (1, 2, 3, 0, 1, 2, 3, 0, 1)]
    assert resets == [3, 3]
