"""Tables and datasets: file formats, column types, leaks, splits, synthetic sets, OpenML and images."""
