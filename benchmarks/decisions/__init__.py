"""The parts of ``bench_decisions.py``, one module per kind of decision."""
