"""Every form of logits as rows and as a distribution, against torch's own distributions."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from pufferlib.frameworks.distributions import ActionDistribution, LogitRows
from pufferlib.pytorch import MixedLogits
from pufferlib.spaces import Mixed

ONE = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, -torch.inf]])
TWO = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
NORMAL = Normal(torch.tensor([[[0.5], [-1.0]], [[2.0], [0.0]]]), torch.full((2, 2, 1), 0.5))
FLAT = Normal(NORMAL.loc.flatten(1), NORMAL.scale.flatten(1))
CHOICES = MultiDiscrete([3, 2])
VALUES = Box(-1, 1, (2, 1), np.float32)
BOTH = Mixed([3, 2], [-1, -1], [1, 1])
FORMS = {
    "choice": (Discrete(3), ONE, [ONE], []),
    "choices": (CHOICES, [ONE, TWO], [ONE, TWO], []),
    "values": (VALUES, NORMAL, [], [FLAT]),
    "both": (BOTH, MixedLogits([ONE, TWO], FLAT), [ONE, TWO], [FLAT]),
}


def theirs(choices, normals):
    """The same variables as torch has them, and how many columns each has."""
    parts = [(Categorical(logits=logits), None) for logits in choices]
    return parts + [(Independent(normal, 1), 2) for normal in normals]


def split(actions, parts):
    """Each variable's columns of `(B, …)` actions."""
    columns, rows = 0, actions.reshape(len(actions), -1)
    for part, width in parts:
        chosen = rows[:, columns] if width is None else rows[:, columns : columns + width]
        yield part, chosen
        columns += width or 1


@pytest.mark.parametrize("form", FORMS)
def test_rows_keep_the_logits(form):
    space, logits, choices, normals = FORMS[form]
    layout = LogitRows(space)
    rows = layout.pack(logits)
    assert rows.shape == (2, layout.size)
    torch.testing.assert_close(rows, layout.pack(layout.unpack(rows)))
    expected = torch.cat([*choices, *(t for n in normals for t in (n.loc, n.scale.log()))], dim=-1)
    torch.testing.assert_close(rows, expected)


@pytest.mark.parametrize("form", FORMS)
def test_log_probabilities_and_entropies_are_those_of_torch(form):
    space, logits, *variables = FORMS[form]
    distribution = ActionDistribution(LogitRows(space).pack(logits), space)
    torch.manual_seed(0)
    actions = distribution.sample((20,))
    assert actions.shape == (20, 2, *space.shape)
    parts = theirs(*variables)
    for drawn in actions:
        expected = sum(part.log_prob(chosen) for part, chosen in split(drawn, parts))
        torch.testing.assert_close(distribution.log_prob(drawn), expected)
    entropy = sum(part.entropy() for part, _ in parts)
    torch.testing.assert_close(distribution.entropy(), entropy)
    best = distribution.log_prob(distribution.mode)
    assert all((distribution.log_prob(drawn) <= best + 1e-6).all() for drawn in actions)


@pytest.mark.parametrize("form", FORMS)
def test_divergences_are_those_of_torch(form):
    space, logits, choices, normals = FORMS[form]
    finite = [part.nan_to_num(neginf=-9.0) / 2 for part in choices]
    halved = [Normal(part.loc / 2, part.scale.sqrt()) for part in normals]
    values = [torch.cat([part.loc, part.scale.log()], dim=-1) for part in halved]
    p = ActionDistribution(LogitRows(space).pack(logits), space)
    q = ActionDistribution(torch.cat([*finite, *values], dim=-1), space)
    parts = zip(theirs(choices, normals), theirs(finite, halved), strict=True)
    expected = sum(kl_divergence(a, b) for (a, _), (b, _) in parts)
    torch.testing.assert_close(kl_divergence(p, q), expected)


def test_batches_of_sequences_keep_their_shape():
    rows = LogitRows(BOTH).pack(FORMS["both"][1])
    distribution = ActionDistribution(rows.expand(5, 3, 2, -1), BOTH)
    assert distribution.batch_shape == (5, 3, 2)
    assert distribution.sample().shape == (5, 3, 2, 4)
    assert distribution.deterministic_sample[4, 2, 1].tolist() == [0, 0, 2, 0]
    assert distribution.log_prob(distribution.mode).shape == (5, 3, 2)


def test_variance_is_that_of_continuous_actions():
    variance = ActionDistribution(LogitRows(BOTH).pack(FORMS["both"][1]), BOTH).variance
    assert variance[0].isnan().tolist() == [True, True, False, False]
    assert variance[0, 2:].tolist() == [0.25, 0.25]
