"""Public names of version 0.1 can still be imported, from former modules with a warning."""

import importlib
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import setpoint.data
import setpoint.errors
import setpoint.report
import setpoint.tables
from setpoint import choose_threshold
from setpoint._internal.renamed import RENAMED, renamed_parameters
from setpoint.data import ByChance, LoaderRows
from setpoint.goals.goal import Goal
from setpoint.training import LabelledRows, Stochastic, StreamProblem, train

# What packages of version 0.1 exported in __all__, and what its documentation described.
PUBLIC_IN_0_1 = {
    "setpoint": (
        "Bound Certificate CheckpointError Constraint ExactPenalty FPOR FROP Goal "
        "GoalError InfeasibleGoalWarning Metric ModelFileError ModelVersionWarning OFOS "
        "OperatingPoint SetpointClassifier SetpointError SetpointThreshold "
        "UncertifiedWarning Verdict certify choose_threshold define_metric "
        "evaluate_threshold fit_goals load metric_names"
    ),
    "setpoint.capped_loss": "Columns capped_loss capped_slope prices",
    "setpoint.certificates": "Bound Certificate Verdict certify certify_best certify_threshold",
    "setpoint.certificates.certify": "certify",
    "setpoint.cli": "main",
    "setpoint.datasets": (
        "CorruptDataError DATASETS Dataset Images Loader MissingDataError Split Texts "
        "honest_split leaks load load_ade_features load_ade_texts load_creditcard "
        "load_eyepacs_features load_eyepacs_images load_mura_images paper_split"
    ),
    "setpoint.demo": "main",
    "setpoint.errors": (
        "CheckpointError DivergedError GoalError InfeasibleGoalWarning PeerLostError "
        "SetpointError UncertifiedWarning"
    ),
    "setpoint.estimators": "SetpointClassifier",
    "setpoint.exact": "ExactSolution solve_exactly",
    "setpoint.experiments.command": "main",
    "setpoint.experiments.figures": (
        "FIGURES NAMES heat_maps logit_histograms regulariser save stress_test surrogates"
    ),
    "setpoint.experiments.methods": "Method",
    "setpoint.experiments.paper_values": "KNOWN PaperEntry PaperValue paper_value paper_values",
    "setpoint.experiments.reproduce": "reproduce",
    "setpoint.experiments.scale": "Scale",
    "setpoint.features": "CacheWarning Encoder FeatureCache ImageEncoder TextEncoder extract",
    "setpoint.features.extract": "extract",
    "setpoint.goals": "Constraint FPOR FROP Goal OFOS",
    "setpoint.losses": "CrossEntropy Focal LDAM LabelledRows Loss SigmoidF1 Tilted",
    "setpoint.metrics": "Metric fbeta metric metric_names",
    "setpoint.model_files": "ModelFileError ModelVersionWarning check_target load save",
    "setpoint.models": "Model build check is_linear linear logits_of mlp scores_of",
    "setpoint.onnx_export": "OnnxError export_onnx",
    "setpoint.operating_point": "OperatingPoint choose_threshold evaluate_threshold",
    "setpoint.own_metrics": "define_metric",
    "setpoint.penalty": "ExactPenalty",
    "setpoint.plots": "plot_certificate",
    "setpoint.reformulation": (
        "G H check_form clarke_subdifferential_of_H eta eta_equality exact_penalty "
        "lifted_counts phi phi_con phi_obj psi psi_weights sigmoid_surrogate"
    ),
    "setpoint.report": (
        "Baseline Costs Report Rows candidates_html certificate_html headline html "
        "operating_point_html save_figures verdict_html write_report"
    ),
    "setpoint.report.headline": "headline",
    "setpoint.several_goals": "fit_goals",
    "setpoint.solvers": (
        "Augmented Callback Candidate Candidates Contender History Lagrangian Lifted "
        "LossTraining Ordinary Problem Projected Record Resampled Run Solution Solver "
        "Stochastic get_solver make_problem settled solve solve_goals"
    ),
    "setpoint.streams": (
        "ArrayRows Block ByChance ByTime LoaderRows ParquetRows RowSource SourceError "
        "StreamProblem stream_evaluate stream_threshold train"
    ),
    "setpoint.tabular": (
        "FittedTable MODELS Ordinary Parts PartsError Schema SchemaError Scored Smell "
        "TableFile TableFileError TableModel TableWriter Target TargetError TestRows "
        "count_rows find_smells fit_table part_rows read_table read_target score_file "
        "table_batches"
    ),
    "setpoint.threshold": "SetpointThreshold",
}
# Names that are gone, with the reason.
REMOVED = {
    ("setpoint.demo", "main"): "part of a script; python -m setpoint.demo still runs",
    ("setpoint.report.headline", "headline"): "the function is setpoint.report.headline",
}


@pytest.fixture
def not_imported(monkeypatch):
    """Let every former module be imported anew, with its warning."""
    for module in RENAMED:
        monkeypatch.delitem(sys.modules, module, raising=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_public_names_can_still_be_imported():
    missing = [
        f"{module}.{name}"
        for module, names in PUBLIC_IN_0_1.items()
        for name in names.split()
        if (module, name) not in REMOVED
        and getattr(importlib.import_module(module), name, None) is None
    ]
    assert missing == []


@pytest.mark.usefixtures("not_imported")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages above
def test_former_modules_warn_and_name_the_new_ones():
    for module, homes in sorted(RENAMED.items()):
        with pytest.warns(DeprecationWarning, match=f"{module} is deprecated.*{homes[0]}"):
            importlib.import_module(module)


@pytest.mark.usefixtures("not_imported")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_unknown_names_are_errors():
    with pytest.raises(ImportError, match="Clasifier"):
        from setpoint.tabular import Clasifier  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("setpoint.tabular.nothing")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("setpoint.nothing")


def test_a_former_module_still_runs():
    """The other one, ``setpoint.experiments``, is run in tests/paper/test_reproduce_command.py."""
    command = [sys.executable, "-m", "setpoint.demo", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "setpoint demo" in found.stdout
    assert "python -m setpoint.demo is deprecated; use python -m setpoint demo" in found.stderr


@pytest.mark.parametrize(
    ("module", "former", "today"),
    [
        (setpoint.errors, "PartsError", setpoint.errors.SplitError),
        (setpoint.tables, "Parts", setpoint.data.Split),
        (setpoint.tables, "part_rows", setpoint.data.split_rows),
    ],
)
def test_former_names_warn(module, former, today):
    with pytest.warns(DeprecationWarning, match=f"{former} is deprecated; it is now"):
        assert getattr(module, former) is today
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018


def test_former_parameters_warn():
    @renamed_parameters(old="new")
    def twice(new):
        return 2 * new

    assert twice(3) == twice(new=3) == 6
    with pytest.warns(DeprecationWarning, match="old is deprecated; it is now new") as w:
        assert twice(old=3) == 6
    assert w[0].filename == __file__
    with (
        pytest.warns(DeprecationWarning, match="old"),
        pytest.raises(TypeError, match="new is given twice, also as old"),
    ):
        twice(old=3, new=3)


def test_a_split_may_be_called_parting():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(200, 2, generator=generator)
    rows, split = LoaderRows([(X, X[:, 0] > 1)]), ByChance(validation=0.3)
    goal = Goal.parse("max f1")
    few = Stochastic(outer_iterations=1, inner_iterations=5)
    with pytest.warns(DeprecationWarning, match="parting"):
        assert StreamProblem(rows, goal, parting=split) == StreamProblem(rows, goal, split)
    with pytest.warns(DeprecationWarning, match="parting"):
        solution = train(torch.nn.Linear(2, 1), rows, goal, parting=split, solver=few)
    assert solution.operating_point.on == "the validation rows"


def test_pickles_of_version_0_1_load():
    file = Path(__file__).parent / "fixtures" / "0.1.0.pickle"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = pickle.loads(file.read_bytes())
    assert found["certificate"].guarantees == found["certificate"].goal.constraints
    assert found["shifted"].prevalence == 0.3
    assert found["verdict"].checks == 1
    assert found["verdict"].guarantees == found["certificate"].guarantees
    assert found["solver"].proximity == (0.0, 0.5)
    assert found["stochastic"] == Stochastic(proximity=(0.0, 0.1, 1.0))
    assert len(found["history"]) == 3
    assert found["candidates"].winner.point == found["point"]


def test_former_modules_list_their_names():
    names = {}
    sys.modules.pop("setpoint.tabular", None)
    with pytest.warns(DeprecationWarning, match="setpoint.tabular is deprecated"):
        exec("from setpoint.tabular import *", names)
    assert {"fit_table", "read_table"} <= names.keys()


def test_former_attributes_and_arguments():
    point = choose_threshold([0, 1, 1], [0.1, 0.5, 0.7], "max f1")
    with pytest.warns(DeprecationWarning, match="standing is deprecated; it is now sort_key"):
        assert point.standing == point.sort_key
    rule = ByChance(validation=0.25)
    with pytest.warns(DeprecationWarning, match="judges is deprecated"):
        assert rule.judges
    with pytest.warns(DeprecationWarning, match="share is deprecated"):
        rows = LabelledRows(torch.tensor([True]), share=torch.ones(1), P=1.0, N=1.0)
    assert rows.weight == 1.0
    with pytest.warns(DeprecationWarning, match="operating_point_html"):
        as_html = setpoint.report.operating_point_html
    assert "fraud" in as_html(point, "fraud", negative="fine")
