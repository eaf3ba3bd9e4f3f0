"""The group of users whose login is a container."""

import grp
import pwd

GROUP = "tank"


def is_member(name: str) -> bool:
    """Whether the account is in the group whose login is a container."""
    try:
        group = grp.getgrnam(GROUP)
    except KeyError:
        return False
    return name in group.gr_mem or pwd.getpwnam(name).pw_gid == group.gr_gid
