"""Models that can be kept: saved without pickle, loaded without running anything, exported as ONNX."""

from genlabel.persistence.model import LoadedModel, load_model, save_model
from genlabel.persistence.onnx import export_onnx
from genlabel.persistence.onnx_nodes import to_onnx

__all__ = ["LoadedModel", "export_onnx", "load_model", "save_model", "to_onnx"]
