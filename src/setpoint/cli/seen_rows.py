"""Rows of ``setpoint evaluate`` that trained the model, or were in earlier files of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from setpoint.cli.output import Output
    from setpoint.cli.prometheus import Samples
    from setpoint.data.fingerprints import Fingerprints, Hashes, Overlap


class SeenRows(NamedTuple):
    """How many of the rows trained the model, or were in earlier files of a check.

    Attributes
    ----------
    trained, checked : Overlap or None
        The overlaps; None if they are not known.
    fingerprints : Fingerprints
        Of these rows and those of earlier files.
    """

    trained: Overlap | None
    checked: Overlap | None
    fingerprints: Fingerprints

    @classmethod
    def of(
        cls, hashes: Hashes, trained: Fingerprints | None, earlier: Fingerprints | None
    ) -> SeenRows:
        """Compare rows with those that trained the model, and those of earlier files."""
        from setpoint.data.fingerprints import Fingerprints

        return cls(
            None if trained is None else trained.overlap(hashes),
            None if earlier is None else earlier.overlap(hashes),
            Fingerprints.of(hashes) if earlier is None else earlier.joined(hashes),
        )

    def warn(self, output: Output, name: str) -> None:
        """Warn if rows have been seen before."""
        if self.trained is not None and self.trained.is_notable:
            output.note(
                f"{self.trained} of {name} trained or certified this model, so the results on them "
                "are too optimistic; use rows that played no part in fitting it.",
                "warning",
            )
        if self.checked is not None and self.checked.is_notable:
            output.note(
                f"{self.checked} of {name} were in earlier files of this check (--after) and now "
                "count twice, so its verdict is not valid; every row may occur once.",
                "warning",
            )

    def add_to(self, samples: Samples) -> None:
        """Add the fraction of rows that trained the model, if it is known."""
        if self.trained is not None:
            samples.add("rows_seen_in_training_ratio", self.trained.fraction)

    def fields(self, continues: bool) -> dict[str, Any]:
        """Return the overlaps for JSON, with the fingerprints if a check may be continued."""
        trained, checked = (
            None if overlap is None else overlap.fraction
            for overlap in (self.trained, self.checked)
        )
        return {
            "rows_seen": {"in_training": trained, "in_earlier_checks": checked},
            "fingerprints": self.fingerprints.to_dict() if continues else None,
        }


def earlier_rows(output: Any) -> Fingerprints | None:
    """Return the fingerprints in the output of ``evaluate --json``; earlier versions wrote none."""
    from setpoint.data.fingerprints import Fingerprints

    found = output.get("fingerprints")
    return None if found is None else Fingerprints.from_dict(found)
