"""Which parameters each optimizer gets, and that their states survive a checkpoint."""

import copy

import pytest
import torch
from torch import nn

from pufferlib import clean_pufferl
from pufferlib.exceptions import CheckpointError
from pufferlib.models import Default, LSTMWrapper
from pufferlib.trainer.optimizers import Optimizers, make_optimizer

CPU = torch.device("cpu")


def policy_of(scripted):
    vecenv = scripted.VecEnv(scripted.rows_from_lives(["fn"]), 1)
    torch.manual_seed(0)
    return LSTMWrapper(vecenv.driver_env, Default(vecenv.driver_env, hidden_size=8), 8, 8)


def names_of(policy, optimizer):
    names = {id(weight): name for name, weight in policy.named_parameters()}
    return {names[id(w)] for group in optimizer.param_groups for w in group["params"]}


def take_step(policy, optimizer, seed):
    torch.manual_seed(seed)
    logits, value, _ = policy(torch.randn(4, 3))
    optimizer.zero_grad()
    (logits.square().sum() + value.square().sum()).backward()
    optimizer.step()
    return torch.cat([weight.detach().ravel() for weight in policy.parameters()])


def test_muon_moves_matrices_between_hidden_layers_only(scripted):
    policy = policy_of(scripted)
    optimizer = make_optimizer(scripted.config(optimizer="muon"), policy, CPU)
    adam, muon = optimizer._parts
    assert isinstance(adam, torch.optim.AdamW)
    assert isinstance(muon, torch.optim.Muon)
    assert names_of(policy, muon) == {
        "policy.encoder.0.weight",
        "recurrent.weight_ih_l0",
        "recurrent.weight_hh_l0",
    }
    assert names_of(policy, optimizer) == {name for name, _ in policy.named_parameters()}


def test_muon_alone_and_nothing_for_it(scripted):
    only_matrix, only_vectors = nn.Linear(3, 4, bias=False), nn.BatchNorm1d(3)
    config = scripted.config(optimizer="muon")
    assert len(make_optimizer(config, only_matrix, CPU).param_groups) == 1
    assert len(make_optimizer(config, only_vectors, CPU).param_groups) == 1


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_a_state_goes_on_where_it_was(scripted, name):
    config = scripted.config(optimizer=name)
    policy = policy_of(scripted)
    optimizer = make_optimizer(config, policy, CPU)
    take_step(policy, optimizer, seed=1)
    twin = copy.deepcopy(policy)
    other = make_optimizer(config, twin, CPU)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert torch.equal(take_step(policy, optimizer, 2), take_step(twin, other, 2))


def test_frozen_weights_stay(scripted):
    policy = policy_of(scripted)
    policy.policy.encoder.requires_grad_(False)
    optimizer = make_optimizer(scripted.config(optimizer="muon"), policy, CPU)
    assert not any("encoder" in name for name in names_of(policy, optimizer))


def test_weight_decay_shrinks_what_has_no_gradient(scripted):
    layer = nn.Linear(2, 2)
    layer.weight.grad = torch.zeros(2, 2)
    before = layer.weight.detach().clone()
    config = scripted.config(optimizer="adamw", weight_decay=0.5, learning_rate=0.1)
    make_optimizer(config, layer, CPU).step()
    torch.testing.assert_close(layer.weight.detach(), before * (1 - 0.1 * 0.5))


def test_the_state_of_other_optimizers_is_refused(scripted):
    sgd = [torch.optim.SGD(nn.Linear(1, 1).parameters()) for _ in range(2)]
    with pytest.raises(ValueError, match="expected 2 optimizers, got 1"):
        Optimizers(sgd).load_state_dict({"parts": [sgd[0].state_dict()]})


@pytest.mark.parametrize(("before", "after"), [("adam", "muon"), ("muon", "adam")])
def test_resuming_with_another_optimizer_says_so(scripted, tmp_path, before, after):
    def make(name):
        vecenv = scripted.VecEnv(scripted.rows_from_lives(["fnnnnnnnn"]), 1)
        policy = Default(vecenv.driver_env, hidden_size=4)
        config = scripted.config(optimizer=name)
        return clean_pufferl.create(config, vecenv, policy, run_dir=tmp_path)

    path = clean_pufferl.save_checkpoint(make(before))
    with pytest.raises(CheckpointError, match=f"another one than train.optimizer {after}"):
        clean_pufferl.load_checkpoint(make(after), path)
