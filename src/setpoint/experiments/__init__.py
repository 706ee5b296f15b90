"""The paper's protocol: methods x goals x data x trials, and its tables and figures."""
