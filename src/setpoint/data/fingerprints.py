"""Fingerprints of rows, by which it is noticed that a model or a check has seen rows before.

A fingerprint is a keyed hash of a row, from which the row cannot be computed; someone who has the
row can compute it. Of large tables only the smallest fingerprints are kept, which is a random
sample of the distinct rows: the fraction of other rows that are among them estimates the overlap.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from setpoint._internal.imports import OptionalModule

pd = OptionalModule("pandas", "cli", "a table")

Hashes = NDArray[np.uint64]

_MOST = 16_384  # fingerprints kept: 100 KB
_BYTES = 6  # of a fingerprint
_ALL = 1 << 8 * _BYTES
_HASHED = 1 << 21  # rows; of larger tables, a fraction is hashed with the key
_CHANCE = 1e-3  # of a warning about rows that are equal by coincidence
_NOTED = 0.005  # fraction of the rows
_KEY = 16  # bytes


def row_hashes(rows: Any, labels: Any) -> Hashes:
    """Return a hash of each row, the same for equal values of any storage type.

    Parameters
    ----------
    rows : DataFrame
        Rows as :meth:`Schema.check` returns them: numbers, texts and times.
    labels : array-like of bool, shape (n,) or (n, L)
        Their labels.
    """
    columns: dict[str, Any] = {}
    for i, name in enumerate(rows.columns):
        values = rows[name]
        if pd.api.types.is_float_dtype(values):
            # 0.1 in 32 bits, and written as such, is another number in 64 bits; -0 equals 0.
            with np.errstate(over="ignore"):
                values = values.to_numpy(dtype=np.float32) + np.float32(0)
            values = np.where(np.isnan(values), np.float32(np.nan), values)
        columns[str(i)] = values
    frame = pd.DataFrame(columns, index=rows.index)
    found = pd.util.hash_pandas_object(frame, index=False).to_numpy(dtype=np.uint64)
    marks = np.asarray(labels, dtype=bool).reshape(len(found), -1)
    for column in marks.T:
        found = _mixed(found * np.uint64(3) + column)
    return np.asarray(_mixed(found))


def table_digest(hashes: Hashes) -> str:
    """Return a digest of rows in any order."""
    return blake2b(np.sort(hashes).tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Overlap:
    """How many rows are known already.

    Attributes
    ----------
    known, compared : int
        How many of the rows that could be compared are known.
    rows : int
        All rows.
    expected : float
        The fraction of rows that would be known by coincidence.
    """

    known: int
    compared: int
    rows: int
    expected: float

    @property
    def fraction(self) -> float:
        """The fraction of rows that are known, as far as they could be compared."""
        return self.known / self.compared if self.compared else 0.0

    @property
    def is_notable(self) -> bool:
        """Whether so many rows are known that this is no coincidence."""
        if self.known <= _NOTED * self.compared:
            return False
        return bool(binom.sf(self.known - 1, self.compared, self.expected) < _CHANCE)

    def __str__(self) -> str:
        if self.compared == self.rows:
            return f"{self.known:,} of {self.rows:,} rows ({self.fraction:.0%})"
        return f"about {self.fraction:.0%} of {self.rows:,} rows"


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Fingerprints of rows, at most 16,384 of them.

    Attributes
    ----------
    key : bytes
        The key of the hash.
    values : ndarray of int
        The smallest fingerprints, sorted.
    limit : int
        Fingerprints below it are all kept.
    rows : int
        How many rows there are.
    repeated : float
        The fraction of the rows that are equal to another one.
    level : int
        Of 2 to the power of ``level`` hashes one has a fingerprint.
    """

    key: bytes
    values: Hashes
    limit: int
    rows: int
    repeated: float
    level: int = 0

    @classmethod
    def of(cls, hashes: Hashes) -> Fingerprints:
        """Return the fingerprints of rows with these hashes; see :func:`row_hashes`.

        Examples
        --------
        >>> rows = pd.DataFrame({"amount": [12.5, 990.0, 7.0], "where": ["home", "away", "home"]})
        >>> hashes = row_hashes(rows, [False, True, False])
        >>> known = Fingerprints.of(hashes[:2])
        >>> known.overlap(hashes).known
        2
        """
        distinct, counts = np.unique(hashes, return_counts=True)
        repeated = float(counts[counts > 1].sum() / max(1, len(hashes)))
        # The key belongs to the rows, so that the same training writes the same file.
        key = blake2b(distinct.tobytes(), digest_size=_KEY, person=b"row key").digest()
        level = max(0, math.ceil(math.log2(max(1, len(hashes)) / _HASHED)))
        found = cls(key, np.empty(0, np.uint64), _ALL, len(hashes), repeated, level)
        return found._with(found._values(distinct))

    def overlap(self, hashes: Hashes) -> Overlap:
        """Return how many of other rows are among these."""
        values = self._values(hashes)
        values = values[values < self.limit]
        known = int(np.isin(values, self.values).sum())
        # Without equal rows, at most about one in so many rows is equal to one of these.
        expected = min(1.0, max(self.repeated, 1 / max(1, self.rows)))
        return Overlap(known, len(values), len(hashes), expected)

    def joined(self, hashes: Hashes) -> Fingerprints:
        """Return the fingerprints of these rows and others."""
        other = Fingerprints.of(hashes)
        rows = self.rows + other.rows
        # The more rows there are, the more of them are equal by coincidence.
        repeated = max(own.repeated * rows / max(1, own.rows) for own in (self, other))
        values = self._values(hashes)
        found = replace(self, rows=rows, repeated=min(1.0, repeated))
        return found._with(np.concatenate([self.values, values[values < self.limit]]))

    def _with(self, values: Hashes) -> Fingerprints:
        values = np.unique(values)
        if len(values) <= _MOST:
            return replace(self, values=values)
        return replace(self, values=values[:_MOST], limit=int(values[_MOST]))

    def _values(self, hashes: Hashes) -> Hashes:
        """Return the fingerprints of those rows that have one."""
        if self.level:
            hashes = hashes[_mixed(hashes) >> np.uint64(64 - self.level) == 0]
        data = np.ascontiguousarray(hashes).tobytes()
        found = b"".join(
            b"\0\0" + blake2b(data[i : i + 8], key=self.key, digest_size=_BYTES).digest()
            for i in range(0, len(data), 8)
        )
        return np.frombuffer(found, dtype=">u8").astype(np.uint64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        packed = self.values.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - _BYTES :]
        return {
            "key": self.key.hex(),
            "values": base64.b64encode(packed.tobytes()).decode(),
            "limit": self.limit,
            "rows": self.rows,
            "repeated": self.repeated,
            "level": self.level,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Fingerprints:
        """Return the fingerprints from the values of ``to_dict``; ValueError if they are none."""
        key, packed = bytes.fromhex(fields["key"]), base64.b64decode(fields["values"])
        limit, rows, level = (int(fields[name]) for name in ("limit", "rows", "level"))
        repeated = float(fields["repeated"])
        valid = 0 <= limit <= _ALL and rows >= 0 and 0 <= level < 64 and 0 <= repeated <= 1
        if len(key) != _KEY or len(packed) % _BYTES or len(packed) > _MOST * _BYTES or not valid:
            raise ValueError("these are not fingerprints of rows")
        padded = np.zeros((len(packed) // _BYTES, 8), dtype=np.uint8)
        padded[:, 8 - _BYTES :] = np.frombuffer(packed, np.uint8).reshape(-1, _BYTES)
        values = padded.reshape(-1).view(">u8").astype(np.uint64)
        return cls(key, np.unique(values), limit, rows, repeated, level)


def _mixed(x: Any) -> Any:
    """Return numbers of 64 bits, each of whose bits depends on all bits of ``x`` (splitmix64)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
