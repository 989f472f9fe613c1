"""Declared names and keys of fingerprints: renaming a class, a parameter or a module edits a line here, no record.

Each class of ours whose settings stand in committed records has one line: its name in fingerprints, then its
parameters. `parameter=key` gives a renamed parameter its old key. `-parameter` does not change numbers and does not
count. `parameter?` was added after records had been made: it counts where its value is not the default, so that older
records stay current.
"""

DECLARED_CLASSES: dict[str, str] = {}
