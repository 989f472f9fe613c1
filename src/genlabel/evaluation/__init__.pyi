from .comparison import compare, run_comparison
from .diagnosis import Diagnosis, diagnose
from .images import load_network, train_images
from .records import load_records
from .table_models import fit_table, predict_table

__all__ = [
    "Diagnosis",
    "compare",
    "diagnose",
    "fit_table",
    "load_network",
    "load_records",
    "predict_table",
    "run_comparison",
    "train_images",
]
