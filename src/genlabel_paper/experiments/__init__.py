"""The tables and figures of the paper, a file each."""

__all__: list[str] = []
