"""``python -m setpoint.paper``: reproduce the paper's tables and figures."""

from __future__ import annotations

import sys

from setpoint.paper.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
