"""What all tests share."""

import os
import secrets
import signal

import hypothesis
import pytest

# Before torch is imported, and for all programs that tests start: networks of a few neurons only
# lose time to a second thread, by far where another process of tests has the other core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Ray reads these where it is imported, which another library may do before a test does. The
# clusters of tests let in nobody else.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

# No deadline: a busy machine is no failure. In CI the same examples every time.
hypothesis.settings.register_profile("default", deadline=None, max_examples=60)
hypothesis.settings.register_profile(
    "ci", parent=hypothesis.settings.get_profile("default"), derandomize=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

# A shell that runs this in the background ignores Ctrl-C for it and for all that it starts, but the
# tests interrupt themselves and their programs.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, which images do not have
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "loadgroup":
        return None
    from platform_groups import make_scheduler

    return make_scheduler(config, log)


def fail_if_skipped_in_ci(report):
    """What a test or a module is skipped for want of on a user's machine, CI must have."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped, with CI=true: {report.longrepr[-1]}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return fail_if_skipped_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_if_skipped_in_ci((yield))
