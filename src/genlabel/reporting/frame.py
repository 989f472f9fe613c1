"""The frame of a page from elements, until the last page is a template."""

from __future__ import annotations

from markupsafe import Markup

from genlabel.reporting.html import environment, macro, page_script, page_style
from genlabel.reporting.markup import element, join

script, style = page_script, page_style

FRAME = """{% extends "page.j2" %}{% block title %}{{ title }}{% endblock %}{% block css %}{{ css }}{% endblock %}
{% block header %}{{ header }}{% endblock %}{% block main %}{{ main }}{% endblock %}"""


def page(title: str, header: str, *main: str, css: str = "") -> str:
    """Return a whole page."""
    template = environment().from_string(FRAME)
    return template.render(title=title, header=join(header), main=join(*main), css=Markup(css))


def section(name: str, title: str, *inside: str) -> Markup:
    """Return a section with an id and a heading."""
    return element("section", element("h2", title), *inside, id=name)


def contents(titles: dict[str, str]) -> Markup:
    """Return links to the sections, by their ids."""
    return macro("contents", titles)
