"""Python reads this at its start where the folder is in PYTHONPATH: so all processes of the tests leave marks."""

import reached

reached.install()
