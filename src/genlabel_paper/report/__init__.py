"""What is shown: grids, claims and pictures of the records, on a page or in the terminal, beside the printed values."""

__all__: list[str] = []
