"""An ONNX graph, built node by node, and its execution by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.imports import need
from setpoint.errors import OnnxError

# Old enough for most runtimes. Trees in double precision need version 5 of the ML operators;
# skl2onnx writes version 3.
OPSET = 17
ML = "ai.onnx.ml"
ML_OPSET, ML_OPSET_OF_TREES = 3, 5
_IR_VERSION = 9


class Graph:
    """Nodes and constants of a graph with the input ``X``, and others if they are added.

    Parameters
    ----------
    n_features : int
        The number of columns of ``X``.
    dtype : numpy dtype
        Its precision, float32 or float64.
    """

    def __init__(self, n_features: int, dtype: Any) -> None:
        self.onnx = need("onnx", "onnx", "An ONNX export")
        self.n_features = n_features
        self.dtype = np.dtype(dtype)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._models = 0
        self.input("X", dtype, n_features)
        self._ml_opset = ML_OPSET

    def type_of(self, dtype: Any) -> int:
        """Return ONNX's code for a dtype."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def input(self, name: str, dtype: Any, columns: int | None = None) -> str:
        """Add an input with one entry, or some columns, per row, and return its name."""
        shape = ["n"] if columns is None else ["n", columns]
        self._inputs.append(
            self.onnx.helper.make_tensor_value_info(name, self.type_of(dtype), shape)
        )
        return name

    def tensor(self, values: ArrayLike, name: str | None = None) -> Any:
        """Return an array as a tensor of ONNX, e.g. for an attribute."""
        return self.onnx.numpy_helper.from_array(np.asarray(values), name)

    def constant(self, values: ArrayLike) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self._constants)}"
        self._constants.append(self.tensor(values, name))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"t{len(self._nodes)}"
        if domain == ML:
            self._ml_opset = ML_OPSET_OF_TREES
        self._nodes.append(
            self.onnx.helper.make_node(operator, inputs, [name], domain=domain, **attributes)
        )
        return name

    def cast(self, name: str, dtype: Any) -> str:
        """Add a conversion to a dtype; return the name of its output."""
        return self.add("Cast", name, to=self.type_of(dtype))

    def include(self, model: Any, input_name: str, output: int = 0) -> str:
        """Add all nodes of another model, applied to a tensor; return its output's name."""
        self._models += 1
        prefix = f"m{self._models}_"
        other = self.onnx.compose.add_prefix(model, prefix).graph
        self._nodes.append(
            self.onnx.helper.make_node("Identity", [input_name], [other.input[0].name])
        )
        self._nodes.extend(other.node)
        self._constants.extend(other.initializer)
        return str(other.output[output].name)

    def finish(
        self,
        scores: str,
        properties: dict[str, str],
        dtype: Any,
        band: tuple[float, float] | None = None,
        columns: int | None = None,
    ) -> Any:
        """Return the model: scores relative to the threshold, and whether they are above 0.

        Parameters
        ----------
        scores : str
            The name of a vector, or of a matrix with a column for each label.
        properties : dict of str to str
            Properties to store in the model.
        dtype : numpy dtype
            The precision of the scores.
        band : (float, float), optional
            The thresholds of a review band. The scores are then as they are, and decisions are how
            many of the thresholds a score is above: 0 (clear), 1 (review) or 2 (alarm).
        columns : int, optional
            The number of labels, if scores are a matrix.
        """
        helper = self.onnx.helper
        number, decision = self.type_of(dtype), self.onnx.TensorProto.BOOL
        if band is None:
            zero = self.constant(np.zeros((), dtype=dtype))
            last = helper.make_node("Greater", [scores, zero], ["decision"])
        else:
            decision = self.onnx.TensorProto.INT64
            cuts = (self.constant(np.asarray(cut, dtype=dtype)) for cut in band)
            above = [self.cast(self.add("Greater", scores, cut), np.int64) for cut in cuts]
            last = helper.make_node("Add", above, ["decision"])
        shape = ["n"] if columns is None else ["n", columns]
        nodes = [*self._nodes, helper.make_node("Identity", [scores], ["score"]), last]
        graph = helper.make_graph(
            nodes,
            "setpoint",
            self._inputs,
            [
                helper.make_tensor_value_info("score", number, shape),
                helper.make_tensor_value_info("decision", decision, shape),
            ],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, self._ml_opset)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="setpoint"
        )
        helper.set_model_props(model, properties)
        try:
            self.onnx.checker.check_model(model)
        except self.onnx.checker.ValidationError as error:
            raise OnnxError(f"the exported model is not valid: {error}") from error
        return model


_ONLY_FATAL = 4  # log level: errors are raised as exceptions, onnxruntime would also print them


def run(model: Any, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """Return all outputs of a model for some rows, from onnxruntime, given all inputs in order."""
    runtime = need("onnxruntime", "onnx", "An ONNX export")
    options = runtime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [entry.name for entry in session.get_inputs()]
        return list(session.run(None, dict(zip(names, inputs, strict=True))))
    except Exception as error:  # onnxruntime has no base class of its errors
        raise OnnxError(f"onnxruntime cannot run the exported model: {error}") from error
