"""A policy for Neural MMO that is small enough to train on a few CPU cores."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pufferlib.emulation.masks import ACTION_MASK
from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.exceptions import APIUsageError
from pufferlib.pytorch import (
    Logits,
    layer_init,
    mask_layout,
    mask_logits,
    nativize_dtype,
    nativize_tensor,
    unpack_mask,
)

MATERIALS = 16
SIDE = 15  # squares that are seen in a row

# Columns of a square, and of a player or NPC; the first of any list's entry is its number.
_MATERIAL = 2
_ID, _ROW, _COLUMN = 0, 2, 3

# Arguments of actions that name an entry of an observed list; their last option is to do nothing.
POINTERS = {"Target": "Entity", "InventoryItem": "Inventory", "MarketItem": "Market"}


class Lookup(NamedTuple):
    """What goes past a recurrent layer to the heads."""

    lists: dict[str, Tensor]
    """By the observation's name, its entries `(B, entries, width)`."""
    allowed: Tensor
    """The mask of the actions `(B, options)`."""


class Policy(nn.Module):
    """Reads squares, players and items; chooses among them by what they are.

    * squares: the material of the 15 x 15 in sight, through an embedding and two convolutions, and
      of the nearest 5 x 5 as they are;
    * the list of players and NPCs in sight: each through one layer, with where it stands relative
      to the agent; the largest of each feature, and the agent's own;
    * items of the agent and of the market, where there are any: likewise.

    An action that names an entry of a list, such as whom to attack, gets the product of that entry
    and a query from the joint features as its logit (Vinyals et al. 2015, *Pointer Networks*):
    whoever it is, and wherever in the list, it is chosen for what it is. What others say is not
    read.

    Args:
        env: anything with `emulated`, such as `vecenv.driver_env`.
        hidden_size: width of the layer that joins everything.
        width: of the features of a list's entry.

    Raises:
        APIUsageError: the observations are not Neural MMO's.
    """

    def __init__(self, env: Any, hidden_size: int = 128, width: int = 64) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.native_dtype = nativize_dtype(env.emulated)
        self.mask_layout = mask_layout(env.emulated)
        leaves = _check_leaves(self.native_dtype)
        self.squares = Squares()
        sizes = {name: leaves[name].shape[1] for name in POINTERS.values() if name in leaves}
        sizes["Entity"] += 2  # where it stands
        self.lists = nn.ModuleDict({name: _layer(size, width) for name, size in sizes.items()})
        features = Squares.features + width * (1 + len(self.lists))
        self.join = nn.Sequential(layer_init(nn.Linear(features, hidden_size)), nn.ReLU())
        self.heads = nn.ModuleList(_heads(env.emulated.action_mask, hidden_size, width))
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Rows `(B, row_size)` uint8 to logits, `(B, n)` for each choice, and value `(B, 1)`."""
        return self.decode_actions(*self.encode_observations(observations))

    def encode_observations(self, observations: Tensor) -> tuple[Tensor, Lookup]:
        """Rows `(B, row_size)` uint8 to features `(B, hidden_size)`, lists and mask."""
        leaves = nativize_tensor(observations, self.native_dtype)
        lists = {name: leaves[name].float() for name in self.lists}
        present = {name: (rows[:, :, _ID] != 0).unsqueeze(2) for name, rows in lists.items()}
        is_self = (lists["Entity"][:, :, _ID] == leaves["AgentId"].view(-1, 1)).unsqueeze(2)
        inputs = {name: _scaled(rows) for name, rows in lists.items()}
        inputs["Entity"] = torch.cat((inputs["Entity"], _offsets(lists["Entity"], is_self)), dim=2)
        entries = {name: layer(inputs[name]) for name, layer in self.lists.items()}
        largest = [(entries[name] * present[name]).amax(1) for name in entries]
        own = (entries["Entity"] * is_self).sum(1)
        squares = self.squares(leaves["Tile"][:, :, _MATERIAL])
        hidden = self.join(torch.cat((squares, own, *largest), dim=1))
        allowed = unpack_mask(observations, self.mask_layout)
        return hidden, Lookup(entries, allowed)

    def decode_actions(self, hidden: Tensor, lookup: Lookup) -> tuple[Logits, Tensor]:
        """Features, lists and mask to logits, `(B, n)` for each choice, and value `(B, 1)`."""
        logits = [head(hidden, lookup.lists) for head in self.heads]
        return mask_logits(logits, lookup.allowed), self.value_head(hidden)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: where food was, and who attacked."""


class Squares(nn.Module):
    """The squares in sight, by their material; those near the agent also one by one."""

    channels = 8
    near = slice(5, 10)  # of both sides
    features = 32 * 3 * 3 + channels * 5 * 5

    def __init__(self) -> None:
        super().__init__()
        self.material = nn.Embedding(MATERIALS, self.channels)
        self.convolutions = nn.Sequential(
            layer_init(nn.Conv2d(self.channels, 16, 3, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(16, 32, 3, stride=2)),
            nn.ReLU(),
            nn.Flatten(),
        )

    def forward(self, materials: Tensor) -> Tensor:
        """Materials `(B, 225)`, row by row, to `(B, features)`."""
        embedded = self.material(materials.long()).unflatten(1, (SIDE, SIDE)).permute(0, 3, 1, 2)
        near = embedded[:, :, self.near, self.near].flatten(1)
        return torch.cat((self.convolutions(embedded), near), dim=1)


class Choice(nn.Module):
    """The logits of an argument whose options are always the same, such as a direction."""

    def __init__(self, hidden_size: int, options: int) -> None:
        super().__init__()
        self.layer = layer_init(nn.Linear(hidden_size, options), std=0.01)

    def forward(self, hidden: Tensor, lists: dict[str, Tensor]) -> Tensor:
        """Features `(B, hidden_size)` to `(B, options)`."""
        return self.layer(hidden)


class Pointer(nn.Module):
    """The logits of an argument that names an entry of a list, or nothing, whose logit is 0."""

    def __init__(self, hidden_size: int, width: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.query = layer_init(nn.Linear(hidden_size, width), std=0.1)

    def forward(self, hidden: Tensor, lists: dict[str, Tensor]) -> Tensor:
        """Features `(B, hidden_size)` and lists `(B, entries, width)` to `(B, entries + 1)`."""
        entries = lists[self.name]
        scores = (entries @ self.query(hidden).unsqueeze(2)).squeeze(2)
        return F.pad(scores / math.sqrt(entries.shape[2]), (0, 1))


def _layer(inputs: int, width: int) -> nn.Module:
    """What encodes the entries of a list, one by one."""
    return nn.Sequential(layer_init(nn.Linear(inputs, width)), nn.ReLU())


def _heads(mask: Any, hidden_size: int, width: int) -> list[nn.Module]:
    """A head for each choice, in the order of the action row."""
    arguments = [names[-1] for names in mask.fields]
    return [
        Pointer(hidden_size, width, POINTERS[argument])
        if argument in POINTERS
        else Choice(hidden_size, options)
        for argument, options in zip(arguments, mask.nvec, strict=True)
    ]


def _scaled(numbers: Tensor) -> Tensor:
    """Levels, ticks and gold in numbers of about one: sign(x) log(1 + |x|) / 4."""
    return numbers.sign() * numbers.abs().log1p() / 4


def _offsets(entities: Tensor, is_self: Tensor) -> Tensor:
    """Where entities `(B, entries, columns)` stand from the agent, in -1 … 1: `(B, entries, 2)`."""
    places = entities[:, :, (_ROW, _COLUMN)]
    own = (places * is_self).sum(1, keepdim=True)
    return (places - own) / (SIDE // 2)


def _check_leaves(native_dtype: Any) -> Any:
    found = set(native_dtype or ())
    missing = {"Tile", "Entity", "AgentId", ACTION_MASK} - found
    if missing:
        raise APIUsageError(
            "neural_mmo.Policy: expected the observations of neural_mmo.make_env, got "
            f"{sorted(found) or 'an unstructured row'}, without {sorted(missing)}"
        )
    return native_dtype
