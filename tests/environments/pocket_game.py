"""A Game Boy game of our own that keeps its state where Pokemon Red does.

The cartridge that the binding is made for may not be handed on. This program lets a hero walk, and
its other buttons do at once what takes hours there: A makes the next event happen, B wins the next
badge, START leads to the next map.
"""

_PROGRAM = bytes.fromhex(
    "f3"  # di: a drawn frame only wakes it up
    "3e01e0ff"  # enable that interrupt
    "3ee4e047"  # four shades of grey
    # Again and again:
    "7600"  # sleep
    "afe00f"  # acknowledge the frame
    "3e20e000f0002fe60f47"  # b = the directions that are pressed
    "3e10e000f0002fe60f"  # a = the other buttons
    "cb37b04f"  # c = both in one byte
    "2100c0467778"  # b = what was pressed before, and keep what is now
    "2fa147"  # b = what is pressed anew
    "cb4028042162d334"  # right: x + 1
    "cb4828042162d335"  # left: x - 1
    "cb5028042161d335"  # up: y - 1
    "cb5828042161d334"  # down: y + 1
    "cb602806"
    "2147d737cb16"  # A: one event more
    "cb682806"
    "2156d337cb16"  # B: one badge more
    "cb782804"
    "215ed334"  # START: the next map
    "fa62d3e043"  # scroll to x
    "1898"
)
_ENTRY, _START, _TITLE = 0x100, 0x150, 0x134


def cartridge():
    """The program as a cartridge of 32 KiB."""
    image = bytearray(0x8000)
    image[_ENTRY : _ENTRY + 4] = bytes.fromhex("00c35001")  # jump to the start
    image[_START : _START + len(_PROGRAM)] = _PROGRAM
    image[_TITLE : _TITLE + 6] = b"POCKET"
    header = image[_TITLE:0x14D]
    image[0x14D] = -(sum(header) + len(header)) & 0xFF
    return bytes(image)
