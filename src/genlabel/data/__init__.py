"""Tables and datasets: file formats, column types, leaks, splits, synthetic datasets, OpenML and images."""
