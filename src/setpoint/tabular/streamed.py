"""The rows of a table in files, as features, for training in bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from setpoint._extras import need
from setpoint.streams._joined import joined
from setpoint.streams.block import Block
from setpoint.tabular.encoder import encode
from setpoint.tabular.errors import SchemaError
from setpoint.tabular.schema import Schema
from setpoint.tabular.stream_files import Piece, TableFiles
from setpoint.tabular.stream_roles import Roles

_NUMBERS = 2**21  # features in a block, about: 16 MiB while they are made
_MOST, _FEWEST = 65_536, 2_048  # rows in a block


class TableRows:
    """A source of rows whose columns are checked and encoded as they are read.

    Parameters
    ----------
    files : TableFiles
        Where they are.
    roles : Roles
        The columns of labels, groups and times.
    schema : Schema
        The columns of the features.
    encoder : ColumnTransformer
        What makes features of them, fitted.
    width : int
        How many features there are.
    """

    classes = (False, True)

    def __init__(
        self, files: TableFiles, roles: Roles, schema: Schema, encoder: Any, width: int
    ) -> None:
        self._files, self._roles, self._schema, self._encoder = files, roles, schema, encoder
        self._columns = list(dict.fromkeys([*schema.names, *roles.names]))
        self.block_rows = min(_MOST, max(_FEWEST, _NUMBERS // width))

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of every so-manieth row group; small ones come several in a block."""
        held: list[Piece] = []
        count = 0
        for piece in self._files.pieces(self._columns, self.block_rows, shard, shards):
            if held and count + len(piece) > self.block_rows:
                yield self._block(held)
                held, count = [], 0
            held.append(piece)
            count += len(piece)
        if held:
            yield self._block(held)

    def fingerprint(self) -> str:
        """Return a digest of the files, the columns and their roles."""
        digest = hashlib.sha256(self._files.fingerprint().encode())
        digest.update(repr(self._roles).encode())
        digest.update(json.dumps(self._schema.to_dict(), sort_keys=True).encode())
        return digest.hexdigest()

    def _block(self, pieces: list[Piece]) -> Block:
        pd = need("pandas", "cli", "a table")
        frames = [piece.frame() for piece in pieces]
        checked = [self._checked(p, frame) for p, frame in zip(pieces, frames, strict=True)]
        X = encode(self._encoder, pd.concat(checked, ignore_index=True))
        labelled = (self._roles.block(p, frame) for p, frame in zip(pieces, frames, strict=True))
        (rows,) = joined(labelled, len(X))
        return replace(rows, X=torch.from_numpy(X))

    def _checked(self, piece: Piece, frame: Any) -> Any:
        try:
            return self._schema.check(frame, ignore_extra=True, first_row=piece.row)
        except SchemaError as error:
            raise SchemaError(
                f"{piece.path} does not go with the rows by which its columns were learnt: {error} "
                "A column can also be left out (--drop)."
            ) from error
