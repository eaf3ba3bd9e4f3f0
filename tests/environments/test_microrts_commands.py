"""Commands of MicroRTS, by hand; no Java needed."""

import numpy as np

from pufferlib.environments.microrts.commands import Commands

# Kinds 0-5, move 6-9, harvest 10-13, return 14-17, direction 18-21, unit 22-23, target 24-32.
COMMANDS = Commands(num_unit_types=2, attack_range=1)
NOTHING, ATTACK = 0, 5
MOVE, PRODUCE = 1, 4


def mask(*elements):
    row = np.zeros(sum(COMMANDS.sizes), np.int32)
    row[list(elements)] = 1
    return row


def test_every_command_once():
    numbers = COMMANDS.numbers
    assert COMMANDS.sizes == (6, 4, 4, 4, 4, 2, 9)
    assert numbers.shape == (1 + 4 + 4 + 4 + 4 * 2 + 9, 7)
    assert numbers[0].tolist() == [0] * 7
    assert numbers[2].tolist() == [MOVE, 1, 0, 0, 0, 0, 0]
    assert numbers[8].tolist() == [2, 0, 3, 0, 0, 0, 0]
    assert numbers[13:21, 4:6].tolist() == [[d, u] for d in range(4) for u in range(2)]
    assert numbers[-1].tolist() == [ATTACK, 0, 0, 0, 0, 0, 8]
    assert len(np.unique(numbers, axis=0)) == len(numbers)


def test_a_command_needs_its_kind_and_its_parameters():
    squares = np.stack(
        [
            mask(),  # nobody is here
            mask(0, MOVE, 6, 9, 10),  # may harvest nothing, whatever is beside it
            mask(PRODUCE, 19, 20, 23),
            mask(0, ATTACK, 24, 32),
        ]
    )
    allowed = [np.flatnonzero(row).tolist() for row in COMMANDS.allowed(squares)]
    assert allowed == [[0], [0, 1, 4], [16, 18], [0, 21, 29]]
