"""Models that can be kept: saved without pickle, loaded without running anything, exported as ONNX."""

from genlabel.persistence.model import LoadedModel, load_model, save_model
from genlabel.persistence.onnx import export_onnx
from genlabel.persistence.schema import ColumnSchema, Schema

__all__ = ["ColumnSchema", "LoadedModel", "Schema", "export_onnx", "load_model", "save_model"]
