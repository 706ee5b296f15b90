"""The paper's comparison: competitors, data sets, features, tables and figures."""
