"""Charts as inline SVG: pure functions of numbers, in the colours of the page."""

from genlabel.reporting.charts.curves import Panel, Point, Series, panels
from genlabel.reporting.charts.heat import HeatCell, heat_map
from genlabel.reporting.charts.intervals import Bar, Interval, bar_chart, interval_plot
from genlabel.reporting.charts.plane import Mixed, region_map, scatter

__all__ = [
    "Bar",
    "HeatCell",
    "Interval",
    "Mixed",
    "Panel",
    "Point",
    "Series",
    "bar_chart",
    "heat_map",
    "interval_plot",
    "panels",
    "region_map",
    "scatter",
]
