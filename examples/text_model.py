"""Certify a text classifier that distinguishes numpy's documentation from scipy's.

The texts are docstrings, so that the example needs no download; use your own reviews, tickets or
reports instead.
"""

import inspect
import warnings
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from setpoint import SetpointThreshold
from setpoint.report import plot_certificate

OTHERS = (scipy.linalg, scipy.optimize, scipy.signal, scipy.stats)


def texts(*modules: ModuleType) -> list[str]:
    """Return the first words of the docstrings of functions and classes, without duplicates."""
    found = set()
    for module in modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated names
            things = [getattr(module, name, None) for name in dir(module)]
        for thing in things:
            if callable(thing) and (text := inspect.getdoc(thing)):
                found.add(" ".join(text.split()[:40]))
    return sorted(found)


def main() -> None:
    """Find as many of numpy's texts as possible while four out of five alarms are right."""
    ours, others = texts(np), texts(*OTHERS)
    X, y = [*ours, *others], np.arange(len(ours) + len(others)) < len(ours)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10))
    goal = "max recall s.t. precision >= 0.8"
    clf = SetpointThreshold(model, goal, confidence=0.9, random_state=0).fit(X_train, y_train)
    print(clf.certificate_)
    print(clf.evaluate(X_test, y_test).message)
    # What would be certified if only one text in ten were numpy's?
    print(clf.certificate_.at_prevalence(0.1).message)

    plot_certificate(clf.certificate_, y_test, clf.positive_scores(X_test))
    plt.savefig("text_model.png")


if __name__ == "__main__":
    main()
