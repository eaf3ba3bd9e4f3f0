"""What tests of compiled code need; a pure installation skips them, CI fails instead."""

import pytest

from pufferlib import native

compiled_core = pytest.mark.skipif(not native.available, reason="needs the compiled core")
