"""``setpoint label``: certify a goal on scored rows without labels, with as few labels as possible.

Each call reads the answers that have arrived, saves the session, and writes the next batch. The
session is saved before the batch, and both files are replaced atomically: whenever the command is
killed, the same call continues.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.app import exit_if_missed, first_imports
from setpoint.cli.output import Output
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.cli.label_tables import Pool
    from setpoint.labelling import LabellingSession


def label(
    data: o.Data,
    score: Annotated[str, o.option(help="Column with the score.")],
    goal: o.GoalText,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column that identifies a row.", show_default="the row number"),
    ] = None,
    answers: Annotated[
        list[Path] | None,
        o.option(help="File with answers; may be given several times. The batch is always read."),
    ] = None,
    budget: Annotated[int | None, o.option(help="Largest number of labels.", min=1)] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Number of rows per batch.", min=1, show_default="20, then growing"),
    ] = None,
    planning: Annotated[
        Path | None, o.option(help="Labelled table with scores of other rows, to plan with.")
    ] = None,
    target: Annotated[str | None, o.option(help="Column with the label in --planning.")] = None,
    guess: Annotated[
        str | None,
        o.option(help="Column with a rough probability of a positive, if there is no --planning."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        o.option(help="Column to show to the labellers; may be given several times."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="File of the session.", show_default="DATA.labelling.json"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file for the next batch.", show_default="DATA.batch.csv"),
    ] = None,
    label_column: Annotated[
        str, typer.Option("--label", help="Column with the label in the files of --answers.")
    ] = "label",
    positive: Annotated[
        str | None,
        typer.Option(help="Label of the class to find, in answers.", show_default="1 or True"),
    ] = None,
    negative: Annotated[
        str | None,
        typer.Option(
            help="Label of the other class, with --positive.", show_default="the other label"
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Answers may correct earlier ones.")
    ] = False,
    known_positives: Annotated[
        Path | None,
        o.option(help="Scores of known positives, drawn independently; nothing is labelled then."),
    ] = None,
    known_negatives: Annotated[
        Path | None, o.option(help="Scores of known negatives, drawn independently.")
    ] = None,
    prevalence: o.Prevalence = None,
    confidence: o.CertifyConfidence = 0.9,
    seed: o.Seed = 0,
    strict: o.Strict = False,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Certify scores of unlabelled rows: ask for a few labels, batch by batch."""
    from setpoint.cli.label_tables import add_answers, is_batch, read_answers, read_pool
    from setpoint.data.table_reader import TableFile
    from setpoint.goals.goal import Goal

    Goal.parse(goal)
    output = Output(as_json, quiet)
    if known_positives is not None or known_negatives is not None:
        known = (known_positives, known_negatives)
        _certify_known(output, data, score, goal, known, prevalence, confidence, seed, strict)
        return
    if planning is not None and target is None:
        raise SetpointError("--planning needs --target, the column of its labels.")
    stem = Path(data.name.removesuffix(".gz")).stem
    state = state or data.with_name(f"{stem}.labelling.json")
    out = out or data.with_name(f"{stem}.batch.csv")
    _check_paths(data, state, out, answers or [], planning)
    TableFile(data).check_names(c for c in (score, identifier, guess) if c is not None)
    if planning is not None and target is not None:
        TableFile(planning).check_names([target, score])
    with first_imports():
        from setpoint.labelling import LabellingSession
        from setpoint.labelling.oracle import check_same

    pool = read_pool(data, score, identifier, keep or [], guess)
    if out.exists() and out.stat().st_size and not is_batch(out, pool):
        raise SetpointError(
            f"{out} exists and is not a batch of an earlier run; name another file with --out, or "
            "delete it."
        )
    before = state.read_bytes() if state.exists() else None
    resumed = before is not None
    if resumed:
        session = LabellingSession.load(state, pool.scores)
        check_same(session, state, goal, confidence, budget)
        if session.details.get("ids") != pool.digest():
            raise SetpointError(
                f"{state} was started with other identifiers; give the same table and --id."
            )
    else:
        rows = None
        if planning is not None and target is not None:
            rows = _planning_rows(planning, target, score, positive, output)
        session = LabellingSession.start(
            pool.scores, goal, confidence=confidence, budget=budget, planning=rows,
            eta=pool.guess if rows is None else None, seed=seed,
        )  # fmt: skip
        session.details = {"ids": pool.digest(), "score": score, "id": pool.id_column}
    if negative is not None:
        session.details["negative"] = negative
    new = 0
    files = [*(answers or []), *([out] if out.exists() and out.stat().st_size else [])]
    for file in files:
        column = label_column if file != out else "label"
        try:
            new += add_answers(
                session, read_answers(file, pool, column), pool, positive, replace and file != out
            )
        except SetpointError:
            if new:  # what other files hold is not lost
                _save(session, state, before)
            raise
    _save(session, state, before)
    _finish(output, session, pool, state, out, batch, new, resumed)
    exit_if_missed(strict, session.certificate.certified or not session.done)


def _save(session: LabellingSession, state: Path, before: bytes | None) -> None:
    """Save a session, unless another process has changed its file since it was read."""
    if (state.read_bytes() if state.exists() else None) != before:
        raise SetpointError(
            f"another process has changed {state} meanwhile; run the command again. No answers are "
            "lost, as long as their files are there."
        )
    session.save(state)


def _finish(
    output: Output,
    session: LabellingSession,
    pool: Pool,
    state: Path,
    out: Path,
    batch: int | None,
    new: int,
    resumed: bool,
) -> None:
    """Write the next batch, and print where the session stands."""
    from setpoint._internal.files import write_atomically
    from setpoint.cli.label_tables import batch_text

    rows = session.next(batch).tolist()
    certificate = session.certificate
    parts: list[Any] = []
    if not resumed:
        parts.append(str(session.expectation))
    else:
        parts.append(f"{new:,} new labels, {session.labelled:,} in all.")
    if rows:
        write_atomically(out, batch_text(pool, rows))
        if certificate.certified:
            parts.append(f"So far: {certificate.message}")
            parts.append("Further labels may certify a better threshold; you may also stop here.")
        parts.append(
            f"Next: {len(rows):,} rows in {out}. Fill in the column 'label' with "
            "1 (positive) or 0, or name the positive label with --positive; then run the same "
            "command again."
        )
    else:
        parts.append(str(certificate))
    output.result(
        {
            "state": str(state), "batch": str(out) if rows else None, "batch_rows": len(rows),
            "new_labels": new, "labels": session.labelled, "done": not rows,
            "expectation": session.expectation._asdict(), "certificate": certificate.to_dict(),
        },
        *parts,
    )  # fmt: skip


def _check_paths(
    data: Path, state: Path, out: Path, answers: list[Path], planning: Path | None
) -> None:
    """Raise SetpointError if an output would replace an input, or its folder does not exist."""
    from setpoint.cli.output_paths import check_separate

    given = {"the table": data}
    if planning is not None:
        given["the planning table"] = planning
    for path, what in ((state, "session"), (out, "batch")):
        check_separate(path, what, {**given, **({"the session": state} if path is out else {})})
        if path.is_dir():
            raise SetpointError(f"{path} is a folder; name a file for the {what}.")
        if not path.resolve().parent.is_dir():
            raise SetpointError(f"the folder {path.parent} for the {what} does not exist.")
    for path in answers:
        if not path.exists():
            raise SetpointError(f"there is no file {path} with answers.")


def _planning_rows(
    path: Path, target: str, score: str, positive: str | None, output: Output
) -> tuple[Any, Any]:
    from setpoint.data.label_columns import read_target, scores_of
    from setpoint.data.table_reader import read_table

    frame = read_table(path, columns=(target, score))
    found = read_target(frame[target], positive)
    if found.note:
        output.note(found.note)
    return found.y, scores_of(frame[score])


def _certify_known(
    output: Output,
    data: Path,
    score: str,
    goal: str,
    known: tuple[Path | None, Path | None],
    prevalence: float | None,
    confidence: float,
    seed: int,
    strict: bool,
) -> None:
    """Certify from cases of known classes, and count the alarms that this gives in the pool."""
    from setpoint.data.table_reader import TableFile, read_table

    for path in (data, *known):
        if path is not None:
            TableFile(path).check_names([score])
    with first_imports():
        from setpoint.data.label_columns import scores_of
        from setpoint.labelling import certify_known_classes

    pool, *classes = (
        None if path is None else scores_of(read_table(path, columns=(score,))[score])
        for path in (data, *known)
    )
    assert pool is not None
    certificate = certify_known_classes(
        goal, *classes, prevalence=prevalence, confidence=confidence, seed=seed
    )
    alarms = int((pool > certificate.threshold).sum())
    output.result(
        {"certificate": certificate.to_dict(), "rows": len(pool), "alarms": alarms},
        str(certificate),
        f"{alarms:,} of the {len(pool):,} rows of {data.name} are above the threshold.",
    )
    exit_if_missed(strict, certificate.certified)
