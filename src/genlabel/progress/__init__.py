"""Progress of long fits, for whoever listens: a terminal, a log, a command, a test; and how long they may take."""

from genlabel.progress.course import Course, Report, Watcher, out_of_time, tell_cut, tell_part, watch
from genlabel.progress.listening import Listener, listen
from genlabel.progress.showing import epoch_listener, follow, show_course

__all__ = [
    "Course",
    "Listener",
    "Report",
    "Watcher",
    "epoch_listener",
    "follow",
    "listen",
    "out_of_time",
    "show_course",
    "tell_cut",
    "tell_part",
    "watch",
]
