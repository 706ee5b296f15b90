"""Export of models to SQL: one statement that scores and decides the rows of a table."""

from setpoint.export.sql.model import export_sql, sql_statement

__all__ = ["export_sql", "sql_statement"]
