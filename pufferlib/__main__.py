"""``python -m pufferlib`` is the ``puffer`` command."""

import sys

from pufferlib.cli import main

if __name__ == "__main__":
    sys.exit(main())
