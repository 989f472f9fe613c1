"""How the site is made: pages are gathered in build/, those of API and records written, all links followed."""

__all__: list[str] = []
