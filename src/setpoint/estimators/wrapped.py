"""What SetpointThreshold and SetpointBand share: the classifier that they wrap, and its scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from setpoint._internal.validation import one_row_per_group
from setpoint.data.splits import Rows, certification_split
from setpoint.errors import SetpointError
from setpoint.estimators.base import SetpointEstimator, take_features
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.cross_fit import Fold, LabelledRows, cv_splits
from setpoint.estimators.model_search import FOLDS, ModelSearch
from setpoint.estimators.scores import two_columns
from setpoint.estimators.search_fits import Measure
from setpoint.goals.goal import Goal
from setpoint.training.model_candidates import ModelCandidates


class Unseen(NamedTuple):
    """A classifier, and scores of rows that were new to it or to a clone of it.

    ``seen`` are the rows that it may have been fitted on or, if it was fitted before, those that
    were scored; ``certification`` are rows that are new to all of them; ``on`` describes the scored
    rows.
    """

    estimator: Any
    folds: list[Fold]
    seen: Rows
    certification: Rows | None
    on: str

    @property
    def merged(self) -> Fold:
        """All scored rows, under the classifier that decides."""
        return Fold.merged(self.estimator, self.folds)


class Comparison(NamedTuple):
    """How models are compared: for a goal, by operating points on the rows of folds.

    ``measure`` takes the rows that models may be fitted on, whether others certify, and a name of
    the rows of folds; it returns a function from a fold to its operating point.
    """

    goal: Goal
    measure: Callable[[Rows, bool, str], Measure]


def _has(name: str) -> Any:
    """Return a check that the classifier has a method, for ``available_if``."""

    def check(self: WrappedClassifier) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)  # or its AttributeError
        return True

    return check


def _check_comparable(classifier: Any) -> None:
    """Raise SetpointError if a threshold for some fits of a classifier does not suit another."""
    last = classifier[-1] if isinstance(classifier, Pipeline) else classifier
    if isinstance(last, SetpointClassifier):
        raise SetpointError(
            "a SetpointClassifier finds its own threshold and measures its scores from it, so that "
            "scores of two fits cannot be compared. Use it alone, or fit it once: cv=0.25, "
            "refit=False."
        )


class WrappedClassifier(SetpointEstimator):
    """Any classifier with one or two thresholds that are found on rows new to it."""

    estimator: Any
    cv: Any
    refit: bool
    confidence: float | None
    certification: Any
    n_jobs: int | None
    estimator_: Any
    candidates_: ModelCandidates | None

    def _score_unseen(
        self,
        data: LabelledRows,
        method: str,
        sample_weight: Any,
        groups: Any,
        fit_params: dict[str, Any],
        seed: int,
        comparison: Comparison | None = None,
    ) -> Unseen:
        """Fit the classifier, and score rows that it has not seen, as ``cv`` says.

        ``comparison`` says how a :class:`ModelSearch` compares models.
        """
        if isinstance(self.estimator, ModelSearch):
            self._check_search(fit_params, comparison)
        fit_params, split_params = self._route(sample_weight, groups, fit_params)
        self.candidates_ = None
        if isinstance(self.cv, str) and self.cv == "prefit":
            check_is_fitted(self.estimator)
            rows = data.rows
            if self.confidence is not None and data.groups is not None:
                rows = rows[one_row_per_group(data.groups[rows], seed)]
            scored = [data.score(self.estimator, rows, method)]
            return Unseen(self.estimator, scored, rows, None, "the rows given")
        seen, certification = data.rows, None
        if self.confidence is not None:
            seen, certification = certification_split(
                self.certification, data.positive, data.weight, data.groups, seed,
                whole_groups=bool(data.columns.periods),
            )  # fmt: skip
        data.labels.check_counts(data.positive[seen])
        folds = FOLDS if isinstance(self.estimator, ModelSearch) else 5
        splits = cv_splits(self.cv, data, seen, seed, split_params, default_folds=folds)
        if len(splits) != 1 and not self.refit:
            raise SetpointError(
                f"refit=False needs one split, and cv has {len(splits)}; use refit=True, or a "
                "fraction such as cv=0.25."
            )
        if self.refit:
            _check_comparable(self.estimator)
        on = "the held-out rows" if len(splits) == 1 else "the cross-fitted rows"
        if isinstance(self.estimator, ModelSearch):
            assert comparison is not None
            measure = comparison.measure(seen, certification is not None, on)
            found = self.estimator.find(
                data, splits, seen, comparison.goal, method, measure, seed, self.refit
            )
            self.candidates_ = found.candidates
            return Unseen(found.estimator, found.folds, seen, certification, on)
        scored = data.cross_fit(self.estimator, splits, fit_params, method, self.n_jobs)
        estimator = scored[0].classifier
        if self.refit:
            estimator = data.fit(clone(self.estimator), seen, fit_params)
        return Unseen(estimator, scored, seen, certification, on)

    def _set_fitted(
        self, data: LabelledRows, estimator: Any, goal: Any, point: Any, certificate: Any
    ) -> None:
        """Keep the classifier that decides, its operating point and its certificate."""
        self.estimator_, self.goal_ = estimator, goal
        self.operating_point_, self.certificate_ = point, certificate
        self._set_labels(data.labels)
        take_features(self, estimator)

    def _check_search(self, fit_params: dict[str, Any], comparison: Comparison | None) -> None:
        """Raise SetpointError if models cannot be compared with these parameters."""
        if comparison is None:
            raise SetpointError(
                f"{type(self).__name__} takes one classifier; models are compared by "
                "SetpointThreshold."
            )
        if isinstance(self.cv, str) and self.cv == "prefit":
            raise SetpointError("cv='prefit' is for a fitted classifier, not for a ModelSearch.")
        if fit_params:
            raise SetpointError(
                f"{', '.join(fit_params)}: a ModelSearch passes only sample_weight and groups on."
            )

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the classifier's own probabilities; thresholds do not change them."""
        check_is_fitted(self, "estimator_")
        found = self.estimator_.predict_proba(X)
        several = self._labels.positive_labels
        return two_columns(found, self.estimator_.classes_, self._labels) if several else found

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the classifier's own decision function; thresholds do not change it."""
        check_is_fitted(self, "estimator_")
        found = self.estimator_.decision_function(X)
        if self._labels.positive_labels and np.ndim(found) == 2:
            raise SetpointError(
                f"the classifier has a decision function for each of its {np.shape(found)[1]} "
                "classes; use positive_scores or predict_proba."
            )
        return found

    # --- scikit-learn ---------------------------------------------------------------------------

    def _route(
        self, sample_weight: Any, groups: Any, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the classifier's ``fit`` and the splitter get besides rows and labels."""
        own = {"sample_weight": sample_weight, "groups": groups}
        own = {name: value for name, value in own.items() if value is not None}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **own, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        if "sample_weight" in own and has_fit_parameter(self.estimator, "sample_weight"):
            fit_params = {**fit_params, "sample_weight": sample_weight}
        return fit_params, {}

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata go to the classifier and which to the splitter."""
        router = MetadataRouter(owner=self).add_self_request(self)
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router.add(estimator=self.estimator, method_mapping=to_fit)
        splitter = self.cv if hasattr(self.cv, "split") else StratifiedKFold()
        return router.add(splitter=splitter, method_mapping=to_split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags
