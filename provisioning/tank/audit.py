"""One JSON line in the journal for every connect, command and change: journalctl -t tank -o cat."""

import json
import syslog

LONGEST = 4096  # characters of a value; journald would split a longer line


def record(event: str, **fields: object) -> None:
    """Write an event; a machine without a journal loses it, and nothing else happens."""
    syslog.openlog("tank", 0, syslog.LOG_AUTHPRIV)
    syslog.syslog(syslog.LOG_INFO, line(event, **fields))


def line(event: str, **fields: object) -> str:
    """The event as one line of ASCII, whatever characters its values have."""
    shown = {name: _cut(value) for name, value in fields.items() if value is not None}
    return json.dumps({"event": event, **shown}, default=str)


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]}… ({len(value)} characters)"
    return value
