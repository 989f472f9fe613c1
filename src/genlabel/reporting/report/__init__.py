"""The report of a table: one page with answers, figures and tables."""
