"""Sphinx extensions of this site: each module is one."""
