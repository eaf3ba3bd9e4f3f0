"""Which modules are collected where their library is not installed.

A module imports its library, so it cannot say more than that it is missing. Where the tier of its
long tests runs it does; elsewhere it is left out, as CI fails what is skipped. So the short tests
of RLlib and Tianshou run in the virtual environments of these: the stage `islands` of .ci/run.
"""

import importlib.util
import re

TIERS = {
    "test_rllib.py": ("ormsgpack", "bench"),  # RLlib needs it, and Ray has RLlib without
    "test_tianshou.py": ("tianshou", "bench"),
    "test_torchrl.py": ("torchrl", "slow"),
}
"""The package that tells whether the library is there, and the mark of the module's long tests."""


def pytest_ignore_collect(collection_path, config):
    package, tier = TIERS.get(collection_path.name, (None, ""))
    runs = re.search(rf"(?<!not ){tier}", config.option.markexpr)
    if package is None or runs or importlib.util.find_spec(package):
        return None
    return True
