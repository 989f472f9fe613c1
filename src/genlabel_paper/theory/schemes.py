"""The training schemes that the paper's examples compare, and a check of their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from genlabel._validation import check_choice

SCHEMES = ("vanilla", "mixup", "mixup-without-mi", "logistic", "genlabel", "svm")
"""Every scheme of arXiv Examples 1 to 3; no example has them all."""


def check_scheme(scheme: str, known: Iterable[str], example: str, why_not: Mapping[str, str]) -> None:
    """Raise unless the example has the scheme; one that another example has is refused with the reason.

    Parameters
    ----------
    scheme : str
    known : the schemes of this example
    example : its name
    why_not : for each scheme of the other examples, why it means nothing here

    Examples
    --------
    >>> check_scheme("svm", ["mixup"], "Example 1", {"svm": "its classifier is not linear"})
    Traceback (most recent call last):
    ValueError: scheme='svm' means nothing in Example 1: its classifier is not linear; choose one of 'mixup'
    """
    known = list(known)
    if isinstance(scheme, str) and scheme in why_not:
        names = ", ".join(repr(name) for name in known)
        raise ValueError(f"scheme={scheme!r} means nothing in {example}: {why_not[scheme]}; choose one of {names}")
    check_choice("scheme", scheme, known)
