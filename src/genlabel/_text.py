"""Numbers in sentences: counts with their nouns, and differences with the digits that they need."""

from __future__ import annotations

MAX_DECIMALS = 6
"""Maximum of decimals of a small difference."""


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless the number is 1.

    >>> count_of(1, "row"), count_of(1200, "mixed row"), count_of(2, "class"), count_of(0, "category")
    ('1 row', '1,200 mixed rows', '2 classes', '0 categories')
    """
    if number == 1:
        return f"1 {noun}"
    if noun[-1] == "y" and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ie"
    return f"{number:,} {noun}{'es' if noun.endswith('s') else 's'}"


def magnitude(value: float, digits: int = 3) -> str:
    """Return the absolute value of a difference with `digits` decimals or, if it is smaller, with its first digit.

    >>> magnitude(-0.0342), magnitude(0.00042), magnitude(0.0), magnitude(1e-9)
    ('0.034', '0.0004', '0', 'less than 0.000001')
    """
    size = abs(value)
    for decimals in range(digits, max(digits, MAX_DECIMALS) + 1):
        text = f"{size:.{decimals}f}"
        if float(text):
            return text
    return f"less than {10.0**-MAX_DECIMALS:.{MAX_DECIMALS}f}" if size else "0"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.0342), signed(-0.00042), signed(0.0)
    ('+0.034', '-0.0004', '0')
    """
    text = magnitude(value)
    return text if text[0] == "l" or value == 0 else ("+" if value > 0 else "-") + text
