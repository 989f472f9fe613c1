"""What runs: the cells of the study, their settings and data, the trials that train them, and the store of records."""

__all__: list[str] = []
