"""``python -m setpoint.paper``: the paper's tables and figures, by name."""

from __future__ import annotations

import sys

from setpoint.paper.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
