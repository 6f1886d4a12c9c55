"""Weights by the engine's own modules, from a JSON list or JSON lines."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from benchmarks.accuracy.cases import BadRow, OracleRow
from benchmarks.accuracy.reading.rows import Row, UnreadableRow, read_rows


def read_oracle(path: Path, bad: list[BadRow]) -> list[OracleRow]:
    """Every row that names a configuration and states bytes or parameters of one rank.

    Of the stages of a pipeline, which stand in rows of their own, the fullest is kept: it is what a GPU must hold.
    """
    rows: dict[str, OracleRow] = {}
    for place, row in read_rows(path, bad):
        try:
            found = _row(row)
        except UnreadableRow as error:
            bad.append(BadRow(place, str(error)))
            continue
        known = rows.get(found.id)
        if known is None or (found.bytes or 0) > (known.bytes or 0):
            rows[found.id] = found
    return list(rows.values())


def _row(row: Row) -> OracleRow:
    config = row.text("config", "file", "model", "config_file", "name")
    if config is None:
        raise UnreadableRow("config: missing; a row names its configuration by config, file or model")
    weights = row.integer("bytes", "weight_bytes", "weights_bytes", "bytes_per_rank")
    if weights is None and (gib := row.number("weights_gib", "gib")) is not None:
        weights = int(gib * 2**30)
    parameters = row.integer("parameters", "params", "params_per_rank", "parameters_per_rank")
    if weights is None and parameters is None:
        raise UnreadableRow(f"bytes: missing, and parameters too ({row.text('error') or 'no reason given'})")
    tensor, pipeline = row.integer("tp", "tensor_parallel_size"), row.integer("pp", "pipeline_parallel_size")
    experts = bool(row.flag("ep", "expert_parallel", "enable_expert_parallel"))
    quantized = row.flag("quantized")
    buffers, apart = row.flag("buffers", "with_buffers"), row.integer("buffer_bytes")
    stem = PurePosixPath(config).name.removesuffix(".json") if config.endswith(".json") else config
    suffix = ("ep" if experts else "") + ("-plain" if quantized is False else "")
    return OracleRow(
        id=f"{stem}/tp{tensor or 1}pp{pipeline or 1}{suffix}",
        config=stem,
        tensor_parallel=tensor or 1,
        pipeline_parallel=pipeline or 1,
        expert_parallel=experts,
        quantized=quantized,
        bytes=weights if buffers is not True or apart is None or weights is None else weights - apart,
        parameters=parameters,
        buffers=_are_counted(stated=buffers, apart=apart),
    )


def _are_counted(*, stated: bool | None, apart: int | None) -> bool | None:
    """Return whether the buffers are in the bytes that are compared. Where they are stated apart, they are not."""
    return stated if apart is None else False
