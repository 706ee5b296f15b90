"""Tests for a GPU; where there is none they are not collected. ``make test-cuda`` runs them."""

import torch

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]
