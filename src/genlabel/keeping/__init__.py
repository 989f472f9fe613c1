"""Models that can be kept: saved without pickle, loaded without running anything, exported as ONNX."""

from genlabel.keeping.exchange import export_onnx
from genlabel.keeping.model import KeptModel, load_model, save_model
from genlabel.keeping.schema import Column, Schema

__all__ = ["Column", "KeptModel", "Schema", "export_onnx", "load_model", "save_model"]
