"""Which process runs which platform tests: `pytest -m platform -n 2 --dist loadgroup`.

By names of modules, since pytest-xdist 3.8 loses marks of groups under pytest 9: it writes them
into an attribute that nothing reads any more. `tests/platform/conftest.py` checks the names.
"""

from pathlib import Path

# Tests of servers share one that took a minute to provision. The virtual machine needs none of it.
SERVERS = ("test_fleet", "test_login", "test_provision", "test_tailnet")
MACHINES = ("test_vm",)


def group_of(module):
    """The tests that start servers, those on a virtual machine, and all others."""
    if module in SERVERS:
        return "servers"
    return "machines" if module in MACHINES else "images"


def make_scheduler(config, log):
    """Each group in one process, in the order of its tests."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(Path(nodeid.partition("::")[0]).stem)

    return GroupScheduling(config, log)
