"""``python -m setpoint``."""

import sys

from setpoint.cli import main

if __name__ == "__main__":
    sys.exit(main())
