"""How far a game of Pokemon Red has come, read from the console's memory.

Addresses are those of the English cartridges, Red and Blue, as the disassembly `pret/pokered` names
them (`wram.asm`).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

_EVENTS = slice(0xD747, 0xD887)  # wEventFlags: 2,560 flags, one for everything that happens once
_BADGES = 0xD356  # wObtainedBadges: 8 flags
_OWNED = slice(0xD2F7, 0xD30A)  # wPokedexOwned: 151 flags
_MAP, _Y, _X = 0xD35E, 0xD361, 0xD362  # wCurMap, wYCoord, wXCoord
_PARTY_COUNT, _PARTY_MOST = 0xD163, 6  # wPartyCount
_FIRST_LEVEL, _MEMBER_BYTES = 0xD18C, 44  # wPartyMon1Level, size of a party member


@dataclass(frozen=True)
class Amounts:
    """What there is of each kind of progress; also what one more of each is worth."""

    tiles: float
    """Different places (map, x, y) that the hero has stood on."""
    maps: float
    """Different maps: rooms, towns, routes, caves."""
    events: float
    """Events of the story."""
    badges: float
    """Badges won."""
    caught: float
    """Kinds of Pokemon ever owned."""
    levels: float
    """Levels of the party, added up."""


class Progress:
    """Counts since the beginning of an episode, each at its best so far.

    What is lost again and regained, such as the level of a party member that was put away, counts
    once.

    Args:
        memory: the console's memory, which gives a byte for an address and a list of bytes for a
            slice.
        worth: the reward for one more of each kind.
    """

    def __init__(self, memory: Any, worth: Amounts) -> None:
        self._memory = memory
        self._worth = astuple(worth)
        self.begin()

    def begin(self) -> None:
        """A new episode: what there is now is no progress."""
        self._visited: set[tuple[int, int, int]] = set()
        self._maps: set[int] = set()
        self._best = self._first = self._count()

    def update(self) -> float:
        """Take in the present state; the reward for what is new in it."""
        best = [max(pair) for pair in zip(self._best, self._count(), strict=True)]
        gains = [new - old for new, old in zip(best, self._best, strict=True)]
        self._best = best
        return sum(gain * value for gain, value in zip(gains, self._worth, strict=True))

    def result(self) -> Amounts:
        """The progress since the beginning."""
        return Amounts(*(now - then for now, then in zip(self._best, self._first, strict=True)))

    def _count(self) -> list[int]:
        """In the order of `Amounts`."""
        memory = self._memory
        self._visited.add((memory[_MAP], memory[_X], memory[_Y]))
        self._maps.add(memory[_MAP])
        return [
            len(self._visited),
            len(self._maps),
            _bits(memory[_EVENTS]),
            memory[_BADGES].bit_count(),
            _bits(memory[_OWNED]),
            self._levels(),
        ]

    def _levels(self) -> int:
        members = min(self._memory[_PARTY_COUNT], _PARTY_MOST)
        return sum(self._memory[_FIRST_LEVEL + i * _MEMBER_BYTES] for i in range(members))


def _bits(flags: list[int]) -> int:
    return int.from_bytes(bytes(flags)).bit_count()
