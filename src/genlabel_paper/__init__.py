"""The paper's study, executable: one file for each table and figure, the records of its cells, the report."""

__all__: list[str] = []
