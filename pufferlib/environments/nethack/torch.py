"""Policy for NetHack: what lies around the hero, the whole map, the status line, the message."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pufferlib.environments.recurrent import RecurrentPolicy
from pufferlib.exceptions import APIUsageError
from pufferlib.models import ActionHead
from pufferlib.pytorch import Logits, layer_init, nativize_dtype, nativize_tensor

MAP_ROWS, MAP_COLUMNS = 21, 79
BLANK_GLYPH = 2359
MAX_GLYPH = 5976

# Where NetHack's glyph numbers change their meaning: monsters, pets, the invisible monster,
# detected monsters, corpses, ridden monsters, objects, map symbols, explosions, swallowed views,
# warnings, statues.
_OFFSETS = (0, 381, 762, 763, 1144, 1525, 1906, 2359, 2446, 2541, 5589, 5595, MAX_GLYPH)
_MAP_SYMBOLS = 7

# (rows, columns) of the eight directions, in the order of NetHack's movement actions: first the
# steps in this order, then the runs.
DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1), (-1, 1), (1, 1), (1, -1), (-1, -1))
_REDUCED_ACTIONS = 23  # the tasks with as many actions begin with MORE, others with the steps
_MOST_WITHOUT_RUNS = 16  # up to so many actions, as in most of MiniHack, there are steps only

# Columns of `blstats`.
_X, _Y, _HP, _MAX_HP, _ENERGY, _MAX_ENERGY = 0, 1, 10, 11, 14, 15


def glyph_kinds() -> Tensor:
    """The kind of every glyph `(MAX_GLYPH + 1,)`: one per group, and one per map symbol.

    What a learner needs first is that something is a monster, an object or a door; which one it
    is matters later, and 5,976 separate glyphs are seen too rarely to learn that from.
    """
    kinds = torch.zeros(MAX_GLYPH + 1, dtype=torch.long)
    for kind, (first, last) in enumerate(itertools.pairwise(_OFFSETS)):
        kinds[first:last] = kind
    symbols = _OFFSETS[_MAP_SYMBOLS + 1] - _OFFSETS[_MAP_SYMBOLS]
    kinds[_OFFSETS[_MAP_SYMBOLS] : _OFFSETS[_MAP_SYMBOLS + 1]] = len(_OFFSETS) + torch.arange(
        symbols
    )
    return kinds


def glyph_planes() -> Tensor:
    """What every glyph means for finding a way, `(MAX_GLYPH + 1, 8)` uint8 of 0 and 1.

    The columns are: known, passable, door, stairs or ladder down, the same up, object, monster,
    pet.
    """
    planes = torch.zeros(MAX_GLYPH + 1, 8, dtype=torch.uint8)
    planes[:, 0] = 1
    planes[BLANK_GLYPH, 0] = 0
    symbol = _OFFSETS[_MAP_SYMBOLS]
    for plane, first, last in (
        (1, symbol + 12, symbol + 14),  # doorways and open doors
        (1, symbol + 19, symbol + 31),  # floor, corridors, stairs, altars, fountains
        (2, symbol + 12, symbol + 16),  # doorways, open and closed doors
        (3, symbol + 24, symbol + 24),  # stairs down
        (3, symbol + 26, symbol + 26),  # ladder down
        (4, symbol + 23, symbol + 23),  # stairs up
        (4, symbol + 25, symbol + 25),  # ladder up
        (5, _OFFSETS[4], _OFFSETS[5] - 1),  # corpses
        (5, _OFFSETS[6], _OFFSETS[7] - 1),  # objects
        (6, _OFFSETS[0], _OFFSETS[1] - 1),  # monsters, the hero among them
        (6, _OFFSETS[2], _OFFSETS[4] - 1),  # unseen and detected monsters
        (7, _OFFSETS[1], _OFFSETS[2] - 1),  # pets
    ):
        planes[first : last + 1, plane] = 1
    return planes


class Policy(nn.Module):
    """Reads glyphs, blstats and message; small enough to train on two CPU cores.

    * near: the `crop` x `crop` squares around the hero, each the sum of an embedding of its glyph
      and one of its kind, through two convolutions;
    * far: the whole map in blocks of 3 x 3 squares around the hero, through two convolutions;
    * status: the 27 `blstats` on a logarithmic scale, with the shares of hit points and energy;
    * message: the characters through an embedding, one strided convolution and a maximum.

    The actions that step or run in a direction also get a score from what lies in that direction,
    by one network for all eight: that a monster next to the hero should be hit, and that walls
    should not, has to be learnt only once.

    Args:
        env: anything with `single_action_space` and `emulated`, such as `vecenv.driver_env`;
            its observations must have `glyphs`, `blstats` and `message`.
        hidden_size: width of the layer that joins the four.
        crop: side of the square around the hero; odd, at least 5.

    Raises:
        APIUsageError: an observation is missing.
    """

    def __init__(self, env: Any, hidden_size: int = 128, crop: int = 9) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.native_dtype = nativize_dtype(env.emulated)
        _check_keys(self.native_dtype)
        self.near = NearMap(crop)
        self.far = FarMap()
        self.message = Message()
        features = self.near.features + self.far.features + Message.features + Status.features
        self.status = Status()
        self.join = nn.Sequential(layer_init(nn.Linear(features, hidden_size)), nn.ReLU())
        self.action_head = ActionHead(env, hidden_size)
        self.direction_head = DirectionHead(env, self.near, hidden_size)
        self.value_head = layer_init(nn.Linear(hidden_size, 1), std=1.0)
        self.register_buffer("kinds", glyph_kinds(), persistent=False)

    def forward(self, observations: Tensor) -> tuple[Logits, Tensor]:
        """Rows `(B, row_size)` to logits `(B, n)` and value `(B, 1)`."""
        return self.decode_actions(*self.encode_observations(observations))

    def encode_observations(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Rows `(B, row_size)` uint8 to features `(B, hidden_size)` and the hero's surroundings."""
        leaves = nativize_tensor(observations, self.native_dtype)
        glyphs, blstats = leaves["glyphs"].long(), leaves["blstats"]
        surroundings = self.near.embed(glyphs, self.kinds, blstats)
        parts = (
            self.near(surroundings),
            self.far(glyphs, blstats),
            self.status(blstats),
            self.message(leaves["message"]),
        )
        return self.join(torch.cat(parts, dim=1)), surroundings

    def decode_actions(self, hidden: Tensor, lookup: Tensor) -> tuple[Logits, Tensor]:
        """Features and surroundings to logits `(B, n)` and value `(B, 1)`."""
        logits = self.action_head(hidden) + self.direction_head(hidden, lookup)
        return logits, self.value_head(hidden)


class Recurrent(RecurrentPolicy):
    """`Policy` with an LSTM of its width: remembers where the stairs were."""


class NearMap(nn.Module):
    """The squares around the hero, hero in the middle."""

    def __init__(self, crop: int, channels: int = 16, width: int = 24) -> None:
        super().__init__()
        self.crop = crop
        self.channels = channels
        self.glyph = nn.Embedding(MAX_GLYPH + 1, channels)
        self.kind = nn.Embedding(int(glyph_kinds().max()) + 1, channels)
        nn.init.normal_(self.glyph.weight, std=0.1)  # the kind speaks first
        self.convolutions = nn.Sequential(
            layer_init(nn.Conv2d(channels, width, 3)),
            nn.ReLU(),
            layer_init(nn.Conv2d(width, width, 3, stride=2)),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.features = width * ((crop - 3) // 2) ** 2

    def forward(self, surroundings: Tensor) -> Tensor:
        """Embedded squares `(B, channels, crop, crop)` to `(B, features)`."""
        return self.convolutions(surroundings)

    def embed(self, glyphs: Tensor, kinds: Tensor, blstats: Tensor) -> Tensor:
        """Glyphs `(B, 21, 79)`, the kind of every glyph, blstats to `(B, channels, crop, crop)`."""
        squares = self.crop_around(glyphs, blstats[:, _X], blstats[:, _Y])
        embedded = self.glyph(squares) + self.kind(kinds[squares])
        return embedded.permute(0, 3, 1, 2)

    def crop_around(self, glyphs: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The `(B, crop, crop)` glyphs around (x, y); blank outside the map."""
        reach = torch.arange(self.crop, device=glyphs.device) - self.crop // 2
        rows, columns = y[:, None] + reach, x[:, None] + reach
        index, inside = _window(rows, columns, MAP_ROWS, MAP_COLUMNS)
        squares = glyphs.flatten(1).gather(1, index.flatten(1)).view_as(index)
        return squares.where(inside, BLANK_GLYPH)


class FarMap(nn.Module):
    """The whole map at a third of its resolution, hero in the middle.

    Eight fixed planes (`glyph_planes`) say what is in a block; nothing is learned at full
    resolution, which would dominate the cost.
    """

    planes: Tensor

    BLOCK = 3
    ROWS, COLUMNS = MAP_ROWS // BLOCK, MAP_COLUMNS // BLOCK  # the last column is hardly ever used
    REACH = (6, 13)  # blocks up and down, left and right: most of the map from anywhere

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        # Eight counters of one byte in an int64: one look-up and one sum count all planes, as no
        # counter of nine squares overflows.
        self.register_buffer("planes", glyph_planes().view(torch.int64)[:, 0], persistent=False)
        self.convolutions = nn.Sequential(
            layer_init(nn.Conv2d(8, width, 3, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(width, width, 3, stride=2)),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.features = width * 2 * 6

    def forward(self, glyphs: Tensor, blstats: Tensor) -> Tensor:
        """Glyphs `(B, 21, 79)` and blstats `(B, 27)` to `(B, features)`."""
        return self.convolutions(self._around(self._blocks(glyphs), blstats))

    def _blocks(self, glyphs: Tensor) -> Tensor:
        """Which planes occur in each block, `(B, 8, 7, 26)` of 0.0 and 1.0."""
        squares = self.planes.index_select(0, glyphs.flatten()).view_as(glyphs)
        # Slices added up are several times faster than a sum over two inner dimensions.
        block, end = self.BLOCK, self.COLUMNS * self.BLOCK
        lines = functools.reduce(torch.add, (squares[:, k::block] for k in range(block)))
        counts = functools.reduce(torch.add, (lines[:, :, k:end:block] for k in range(block)))
        present = counts.unsqueeze(-1).view(torch.uint8).clamp(max=1)
        return present.permute(0, 3, 1, 2).float()

    def _around(self, blocks: Tensor, blstats: Tensor) -> Tensor:
        """The `(B, 8, 13, 27)` blocks around the hero's, zero outside the map."""
        up, left = self.REACH
        rows = blstats[:, _Y, None] // self.BLOCK + torch.arange(-up, up + 1, device=blocks.device)
        columns = blstats[:, _X, None] // self.BLOCK
        columns = columns + torch.arange(-left, left + 1, device=blocks.device)
        index, inside = _window(rows, columns, self.ROWS, self.COLUMNS)
        flat = index.flatten(1).unsqueeze(1).expand(-1, blocks.shape[1], -1)
        around = blocks.flatten(2).gather(2, flat).view(*blocks.shape[:2], *index.shape[1:])
        return around * inside.unsqueeze(1)


class DirectionHead(nn.Module):
    """Scores for the steps and runs in eight directions, from the squares in that direction."""

    def __init__(self, env: Any, near: NearMap, hidden_size: int, width: int = 32) -> None:
        super().__init__()
        self.num_actions = int(env.single_action_space.n)
        self.first = 1 if self.num_actions == _REDUCED_ACTIONS else 0
        gaits = 1 if self.num_actions <= _MOST_WITHOUT_RUNS else 2
        centre, reach = near.crop // 2, torch.arange(1, near.crop // 2 + 1)
        rows, columns = (
            centre + torch.tensor(part)[:, None] * reach for part in zip(*DIRECTIONS, strict=True)
        )
        self.register_buffer("rays", rows * near.crop + columns, persistent=False)
        self.squares = layer_init(nn.Linear(near.channels * len(reach), width))
        self.context = layer_init(nn.Linear(hidden_size, width))
        self.score = layer_init(nn.Linear(width, gaits), std=0.01)

    def forward(self, hidden: Tensor, surroundings: Tensor) -> Tensor:
        """Features and embedded squares to `(B, num_actions)`, zero for all other actions."""
        flat = surroundings.flatten(2).transpose(1, 2)
        rays = flat[:, self.rays].flatten(2)
        features = (self.squares(rays) + self.context(hidden).unsqueeze(1)).relu()
        scores = self.score(features).transpose(1, 2).flatten(1)
        after = self.num_actions - self.first - scores.shape[1]
        return F.pad(scores, (self.first, after))


class Status(nn.Module):
    """`blstats` in numbers of about one: sign(x) log(1 + |x|) / 4, and two shares."""

    features = 27 + 2

    def forward(self, blstats: Tensor) -> Tensor:
        """Blstats `(B, 27)` to `(B, features)`."""
        raw = blstats.float()
        scaled = raw.sign() * raw.abs().log1p() / 4
        hit_points = raw[:, _HP] / raw[:, _MAX_HP].clamp(min=1)
        energy = raw[:, _ENERGY] / raw[:, _MAX_ENERGY].clamp(min=1)
        return torch.cat((scaled, hit_points[:, None], energy[:, None]), dim=1)


class Message(nn.Module):
    """The message line: which short pieces of text occur in it."""

    features = 32
    _LENGTH = 80  # NetHack wraps what is longer

    def __init__(self, channels: int = 8, width: int = 6, stride: int = 2) -> None:
        super().__init__()
        self.character = nn.Embedding(256, channels)
        self.pieces = layer_init(nn.Conv1d(channels, self.features, width, stride=stride))

    def forward(self, message: Tensor) -> Tensor:
        """Characters `(B, 256)` to `(B, features)`."""
        text = self.character(message[:, : self._LENGTH].long())
        return self.pieces(text.transpose(1, 2)).amax(dim=2).relu()


def _window(rows: Tensor, columns: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Where `rows` `(B, h)` meet `columns` `(B, w)` in a flat map of `height` by `width`.

    Returns the index `(B, h, w)` of the nearest square of the map, and whether it is the square.
    """
    near_rows, near_columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    inside = (rows == near_rows)[:, :, None] & (columns == near_columns)[:, None]
    return near_rows[:, :, None] * width + near_columns[:, None], inside


def _check_keys(native_dtype: Any) -> None:
    found = set(native_dtype or ())
    missing = {"glyphs", "blstats", "message"} - found
    if missing:
        raise APIUsageError(
            f"nethack.Policy: expected the observations glyphs, blstats and message, got "
            f"{sorted(found) or 'an unstructured row'}; add {sorted(missing)} to observation_keys"
        )
