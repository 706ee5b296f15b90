"""The paper's comparison: competitors, data sets, features, tables and figures.

``python -m setpoint.paper`` (or ``setpoint reproduce``) follows this path: :mod:`.tables` lists the
jobs behind each table, :mod:`.runner` runs those whose result is not stored yet, :mod:`.results`
stores them and turns them into rows, :mod:`.render` writes the files.
"""
