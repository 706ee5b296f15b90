"""What a fitted classifier can be written to, and how a notebook shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Outputs:
    """Pages, model files and what a notebook shows, for both estimators."""

    def report(self, path: str | Path, X: Any = None, y: Any = None, **options: Any) -> Path:
        """Write a page, one HTML file, on what the classifier does and what is promised of it.

        ``X`` and ``y`` are labelled rows that are new to it; they are compared with the promise
        (give their ``groups`` where the fit had some). Without them the page is about the rows
        that set the threshold, which look better than new ones will. ``options`` are fields of
        :class:`setpoint.report.Report`, such as ``title``, ``positive`` and ``costs``.
        """
        from setpoint.report.of_classifier import write_report_of

        return write_report_of(self, path, X, y, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a folder, or to one file if the path ends in .zip."""
        from setpoint.model_files import save

        save(self, path)

    # scikit-learn's `_repr_html_` answers with the first, and both heed its `display` setting.

    def _repr_html_inner(self) -> str:
        return self._decisions_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._decisions_html() + bundle["text/html"]
        return bundle

    def _decisions_html(self) -> str:
        from setpoint.report.notebook import classifier_html

        return classifier_html(self)
