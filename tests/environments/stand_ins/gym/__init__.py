"""As much of the old `gym` as MineRL's stand-in needs."""

_ENTRIES = {}


def register(name, entry):
    _ENTRIES[name] = entry


def make(name):
    return _ENTRIES[name]()
