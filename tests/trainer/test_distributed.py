"""Processes that train together: what one with all environments would do, over real gloo.

The processes are forked from this one, so that none has to import torch again, nor what its
optimizers import when the first one is made.
"""

import multiprocessing
import traceback
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch._dynamo
from torch import nn

from pufferlib import clean_pufferl
from pufferlib.exceptions import ConfigError, GroupError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.trainer import distributed
from pufferlib.trainer.batch import Batch
from pufferlib.trainer.config import TrainConfig, VecConfig
from pufferlib.trainer.distributed import ALONE, VARIABLES, Group, connected, group_of
from pufferlib.trainer.learn import PARTS, ppo_loss
from pufferlib.trainer.prepare import env_seed
from pufferlib.trainer.setup import vec_share
from pufferlib.trainer.statistics import Statistics, pool
from pufferlib.vector.seeds import spread_seed

TWO = [Group(rank, 2, rank, 2) for rank in range(2)]
EVEN = ["fnnnnnnnn", "fnnnnnntf", "fntfnnnnn", "fnnufnnnn"]
# Of the first process's 16 transitions 14 are valid, of the second's 5.
UNEVEN = ["fnntfnnnn", "fnnnnnunf", "----fntfn", "------fnn"]
# The second process has samples for one of two minibatches.
SCARCE = ["fnnnnnnnn", "fnnnnnnnn", "---------", "-------fn"]


def together(work, tmp_path, timeout=100):
    """What `work(group)` returns in each of two processes; an exception's traceback fails."""
    fork = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for group in TWO:
        pipe, end = fork.Pipe(duplex=False)
        process = fork.Process(target=one_of_two, args=(work, group, end, tmp_path / "store"))
        process.start()
        pipes.append(pipe)
        processes.append(process)
        end.close()
    try:
        results = [pipe.recv() if pipe.poll(timeout) else ("hung", None) for pipe in pipes]
    finally:
        for process in processes:
            process.kill()
            process.join()
    assert [kind for kind, _ in results] == ["done", "done"], results
    return [value for _, value in results]


def one_of_two(work, group, end, store):
    torch.set_num_threads(1)
    try:
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{store}",
            rank=group.rank,
            world_size=group.size,
            timeout=timedelta(seconds=50),
        )
        end.send(("done", work(group)))
    except BaseException:
        end.send((traceback.format_exc(), None))


class OneUnused(nn.Module):
    """Has a parameter without a gradient, and one that only some observations reach."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 5)
        self.positive = nn.Linear(3, 5)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x):
        out = self.layer(x)
        some = (x[:, 0] > 2.5).nonzero().flatten()
        if len(some):
            out = out.index_add(0, some, self.positive(x[some]))
        return out[:, :4], out[:, 4]


def policy_of(kind, vecenv):
    torch.manual_seed(5)
    if kind == "unused":
        return OneUnused()
    policy = Default(vecenv.driver_env, hidden_size=8)
    return LSTMWrapper(vecenv.driver_env, policy, 8, 8) if kind == "recurrent" else policy


def rows_of(scripted, lives, group):
    """The rows of this process's agents among those of all."""
    share = group.share(range(len(lives)))
    part = slice(share[0], share[-1] + 1)
    rows = [
        {key: values[part] for key, values in row.items()}
        for row in scripted.rows_from_lives(lives)
    ]
    return [row | {"agents": np.arange(len(share))} for row in rows]


def make_trainer(scripted, folder, lives=EVEN, kind="plain", group=ALONE, **options):
    rows = rows_of(scripted, lives, group)
    vecenv = scripted.VecEnv(rows, len(rows[0]["agents"]))
    vecenv.num_envs = vecenv.num_agents
    policy = policy_of(kind, vecenv)
    if not group.is_main:
        nn.init.zeros_(next(policy.parameters()))  # the first process's weights are taken
    config = scripted.config(**options)
    return clean_pufferl.create(config, vecenv, policy, run_dir=folder, group=group)


def choose_by_observation(experience):
    """Replace what was drawn, so that it does not matter which process an agent is in."""
    experience.actions[:] = np.abs(experience.observations[..., 0]) * 1000 % 4
    experience.logprobs[:] = -np.log(4)


def update(trainer):
    """Weights, what an update said, steps, last gradients, and which parameters have none."""
    clean_pufferl.evaluate(trainer)
    choose_by_observation(trainer.experience)
    losses = clean_pufferl.train(trainer)
    losses.pop("explained_variance", None)  # each process has its own
    weights = torch.cat([weight.detach().ravel() for weight in trainer.policy.parameters()])
    gradients = [weight.grad for weight in trainer.policy.parameters()]
    flat = torch.cat([gradient.ravel() for gradient in gradients if gradient is not None])
    without = [gradient is None for gradient in gradients]
    return weights.numpy(), losses, trainer.global_step, flat.numpy(), without


WHOLE = {"minibatch_size": 32, "update_epochs": 3, "learning_rate": 1e-3}
DIVERGENCE = 3e-5
SCENARIOS = [
    (EVEN, WHOLE),
    (UNEVEN, WHOLE),
    (SCARCE, WHOLE),
    (UNEVEN, WHOLE | {"update_epochs": 6, "target_kl": DIVERGENCE}),
    # However the samples fall into minibatches, their gradients make one step.
    (UNEVEN, {"minibatch_size": 16, "accumulate": 2, "norm_adv": False}),
    (SCARCE, {"minibatch_size": 16, "accumulate": 2, "norm_adv": False}),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "recurrent", "unused"])
def test_two_processes_learn_what_one_with_all_environments_would(kind, scripted, tmp_path):
    def update_all(group):
        return [
            update(make_trainer(scripted, tmp_path, lives, kind, group, **options))
            for lives, options in SCENARIOS
        ]

    alone, first, second = update_all(ALONE), *together(update_all, tmp_path)
    for (_, options), expected, *pair in zip(SCENARIOS, alone, first, second, strict=True):
        np.testing.assert_array_equal(pair[0][0], pair[1][0])
        for weights, losses, steps, gradients, without in pair:
            np.testing.assert_allclose(weights, expected[0], atol=1e-6, rtol=0)
            np.testing.assert_allclose(gradients, expected[3], atol=1e-6, rtol=0)
            assert (steps, without) == (expected[2], expected[4])
            assert losses == pair[0][1]
            if "accumulate" not in options:  # else they are means over other minibatches
                assert losses == pytest.approx(expected[1], abs=1e-6)


def test_the_divergence_ends_an_update_of_both(scripted, tmp_path):
    """The scenario above would be vacuous if it stopped after the first pass or never."""
    options = WHOLE | {"update_epochs": 6}
    free = update(make_trainer(scripted, tmp_path, UNEVEN, **options))
    stopped = update(make_trainer(scripted, tmp_path, UNEVEN, **options, target_kl=DIVERGENCE))
    once = update(make_trainer(scripted, tmp_path, UNEVEN, **options | {"update_epochs": 1}))
    assert (free[0] != stopped[0]).any()
    assert (once[0] != stopped[0]).any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"prio_alpha": 0.8}, marks=pytest.mark.slow),
        pytest.param({"vtrace": True}, marks=pytest.mark.slow),
    ],
)
def test_clocks_draws_and_unequal_data_leave_weights_bit_equal(options, scripted, tmp_path):
    def two_updates(group):
        trainer = make_trainer(
            scripted,
            tmp_path,
            UNEVEN,
            group=group,
            **(options | {"minibatch_size": 16, "anneal_lr": True, "max_seconds": 1000}),
        )
        trainer.started -= 300 * group.rank  # the second process's clock is far ahead
        draw = torch.rand(1).item()
        return update(trainer)[0], trainer.learning_rate, trainer.agreed_progress(), draw

    first, second = together(two_updates, tmp_path)
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1:3] == second[1:3]
    assert first[2] < 0.29
    assert first[3] != second[3], "generators differ"


def test_a_process_that_ends_fails_the_other_at_once(tmp_path):
    def work(group):
        if group.is_main:
            with pytest.raises(GroupError, match="process 0 of 2 cannot go on: another one has"):
                group.add_counts(1)
        else:
            torch.distributed.destroy_process_group()
        return group.rank

    assert together(work, tmp_path, timeout=20) == [0, 1]


def test_values_of_the_first_and_of_all(tmp_path):
    def work(group):
        total = group.add_counts(group.rank + 1)
        stats = pool(
            Statistics(
                {"score": float(group.rank), "own": 5.0}, {"score": 1 + group.rank, "own": 1}
            )
            if group.is_main
            else Statistics({"score": 3.0}, {"score": 2}, {"map": "b"}),
            group,
        )
        try:
            group.require_equal("options", {"seed": group.rank, "same": 1})
        except ConfigError as error:
            return group.from_main(group.rank), total, dict(stats), stats.counts, str(error)

    for rank, result in enumerate(together(work, tmp_path)):
        assert result[:2] == (0, 3)
        assert result[2:4] == ({"score": 2.0, "own": 5.0}, {"score": 3, "own": 1})
        assert f"but seed differ between process {rank} and process {1 - rank}" in result[4]


# -- one process at a time -----------------------------------------------------------------------


def test_who_is_in_the_group_comes_from_torchrun():
    assert group_of({}) is group_of({"WORLD_SIZE": "1", "RANK": "0"}) is ALONE
    values = dict(zip(VARIABLES, ("5", "8", "1", "4", "127.0.0.1", "29500"), strict=True))
    assert group_of(values) == Group(rank=5, size=8, local_rank=1, local_size=4)
    with pytest.raises(ConfigError, match="LOCAL_RANK, MASTER_PORT are not set; start them with"):
        group_of({k: v for k, v in values.items() if k not in ("LOCAL_RANK", "MASTER_PORT")})
    with pytest.raises(ConfigError, match="expected numbers"):
        group_of(values | {"RANK": "first"})


def test_environments_have_the_seeds_that_one_process_would_give_them():
    assert env_seed(7, 4, ALONE) == 7
    parts = [env_seed(7, 2, group) for group in TWO]
    assert [*parts[0], *parts[1]] == spread_seed(7, 4)


def test_generators_of_processes_differ_and_follow_from_the_seed():
    seeds = [Group(rank, 4).own_seed(seed) for seed in (1, 2) for rank in range(4)]
    assert len(set(seeds)) == 8
    assert seeds[0] == 1
    assert seeds == [Group(rank, 4).own_seed(seed) for seed in (1, 2) for rank in range(4)]


def test_sizes_are_those_of_all_processes():
    config = TrainConfig(bptt_horizon=8, batch_size=128, minibatch_size=32)
    resolved = config.resolve(num_agents=4, processes=2)
    assert (resolved.batch_size, resolved.minibatch_size) == (64, 16)
    resolved = TrainConfig(bptt_horizon=8).resolve(num_agents=4, processes=2)
    assert (resolved.batch_size, resolved.minibatch_size) == (32, 8)


def test_a_batch_that_does_not_divide_is_refused_with_the_nearest():
    config = TrainConfig(bptt_horizon=8, batch_size=120)
    message = r"batch_size \(120\) must be a multiple of train.bptt_horizon times the 2 processes"
    with pytest.raises(ConfigError, match=message + r" \(16\); nearest: 112 or 128"):
        config.resolve(num_agents=4, processes=2)


def test_environments_and_workers_are_divided(monkeypatch):
    monkeypatch.setattr("pufferlib.trainer.setup.available_cores", lambda: 8)
    group = Group(1, 4, 1, 2)
    share = vec_share(VecConfig(num_envs=32, batch_size=16), group)
    assert (share.num_envs, share.num_workers, share.batch_size) == (8, 4, 4)
    share = vec_share(VecConfig(num_envs=32, num_workers=16, backend="ray"), group)
    assert (share.num_envs, share.num_workers, share.batch_size) == (8, 4, "auto")
    share = vec_share(VecConfig(num_envs=4096), group, one_each=True)
    assert (share.num_envs, share.num_workers) == (1024, 1024), "more than there are cores"
    assert vec_share(VecConfig(num_envs=3), ALONE) == VecConfig(num_envs=3)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            VecConfig(num_envs=6),
            r"vec.num_envs \(6\) must be a multiple of the number of processes",
        ),
        (VecConfig(num_workers=2), r"vec.num_workers \(2\) must be .* \(4\); nearest: 4"),
        (VecConfig(backend="ray"), "vec.num_workers: expected a number with Ray and 4 processes"),
    ],
)
def test_what_cannot_be_divided_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        vec_share(config, Group(1, 4, 1, 4))


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda:1", "got 'cuda:1'"), ("cuda", "expected a GPU for each of the 2 processes .* got 1")],
)
def test_each_process_has_a_gpu_of_its_own(device, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match=message), connected(TWO[0], device):
        pytest.fail("connected")


def test_nccl_carries_gradients_where_there_are_gpus(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    monkeypatch.setattr(
        distributed.distributed, "init_process_group", lambda name, **_: calls.append(name)
    )
    monkeypatch.setattr(distributed.distributed, "destroy_process_group", lambda: None)
    for device in ("auto", "cpu"):
        with connected(TWO[1], device):
            pass
    assert calls == [1, "cpu:gloo,cuda:nccl", "gloo"]


def test_a_resumed_process_begins_new_episodes_with_seeds_of_its_own(scripted, tmp_path):
    trainer = make_trainer(scripted, tmp_path)
    update(trainer)
    trainer.group = TWO[0]
    path = clean_pufferl.save_checkpoint(trainer)
    seen = []
    for group in TWO:
        trainer = make_trainer(scripted, tmp_path)
        trainer.group = group
        why = clean_pufferl.load_checkpoint(trainer, path)
        assert why == "the run has 2 processes"
        seen.append((list(trainer.env_seed), torch.rand(1).item(), trainer.epoch))
    assert seen[0][2] == seen[1][2] == 1
    assert not set(seen[0][0]) & set(seen[1][0])
    assert seen[0][1] != seen[1][1]


def test_the_checkpoint_of_several_processes_has_no_episodes(scripted, tmp_path):
    trainer = make_trainer(scripted, tmp_path)
    trainer.group = TWO[0]
    content = clean_pufferl.checkpoint.describe(trainer)
    assert content["episodes"] == {"missing": "the run had 2 processes"}


def test_the_names_of_what_is_said_of_a_minibatch(scripted, tmp_path):
    trainer = make_trainer(scripted, tmp_path)
    clean_pufferl.evaluate(trainer)
    segments = trainer.experience.collect(0.99, 0.95)
    (minibatch,) = Batch(segments, trainer.device).minibatches(32)
    assert tuple(ppo_loss(trainer, minibatch)[1]) == PARTS
