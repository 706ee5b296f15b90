"""What a fitted classifier can be written to, and how a notebook shows it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from setpoint.certificates.certificate import Certificate
from setpoint.errors import UncertifiedWarning
from setpoint.thresholds.operating_point import OperatingPoint


def tell(certificate: Certificate, stacklevel: int = 3) -> None:
    """Warn where nothing is promised, at the caller of the ``fit`` that calls this."""
    if not certificate.certified:
        warnings.warn(certificate.message, UncertifiedWarning, stacklevel=stacklevel)


class Outputs:
    """Pages, model files and what a notebook shows, for both estimators."""

    def report(self, path: str | Path, X: Any = None, y: Any = None, **options: Any) -> Path:
        """Write a page, one HTML file, on what the classifier does and what is promised of it.

        ``X`` and ``y`` are labelled rows that are new to it; they are compared with the promise
        (give their ``groups`` where the fit had some). Without them the page is about the rows
        that set the threshold, which look better than new ones will. ``options`` are fields of
        :class:`setpoint.report.Report`, such as ``title``, ``positive`` and ``costs``.
        """
        from setpoint.report.page import write_report_of

        return write_report_of(self, path, X, y, **options)

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a folder, or to one file if the path ends in .zip."""
        from setpoint.estimators.saving import describe
        from setpoint.saving.storage import save

        save(self, path, describe)

    # scikit-learn's `_repr_html_` answers with the first, and both heed its `display` setting.

    def _repr_html_inner(self) -> str:
        return self._decisions_html() + str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._decisions_html() + bundle["text/html"]
        return bundle

    def _decisions_html(self) -> str:
        if not hasattr(self, "operating_point_"):
            return ""
        positive = self.pos_label_  # type: ignore[attr-defined]
        labels = self.classes_.tolist()  # type: ignore[attr-defined]
        [negative] = [label for label in labels if label != positive]
        certificate = self.certificate_  # type: ignore[attr-defined]
        return decisions_html(self.operating_point_, certificate, positive, negative)


def decisions_html(
    point: OperatingPoint, certificate: Certificate | None, positive: Any, negative: Any
) -> str:
    """Return an operating point with the labels' names, and its certificate, for a notebook."""
    names = f"positive: {_short(positive)}", f"negative: {_short(negative)}"
    shown = point._summary(*names).html()
    return shown + ("" if certificate is None else certificate._repr_html_())


def _short(label: Any) -> str:
    text = str(label)
    return text if len(text) <= 40 else f"{text[:39]}…"
