"""What a run tells: events as they happen, a display that follows them, a report and TensorBoard scalars."""

from ps_cluster.report.event_log import EventLog
from ps_cluster.report.json_report import Report, report_of, write_report
from ps_cluster.report.progress import Renderer
from ps_cluster.report.tensorboard import ScalarWriter

__all__ = [
    "EventLog",
    "Renderer",
    "Report",
    "ScalarWriter",
    "report_of",
    "write_report",
]
