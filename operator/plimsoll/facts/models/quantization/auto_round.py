"""AutoRound: integers packed like those of GPTQ or AWQ, FP8 in blocks, or MX numbers.

Source: vLLM, ``quantization/auto_round.py`` (0.9 to 0.14), ``quantization/inc.py`` (0.16 to 0.23) and
``quantization/inc/`` with its ``config_parser.py`` (since 0.24).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plimsoll.domain.errors import UnsupportedModel
from plimsoll.facts.models.fields import Fields, shown
from plimsoll.facts.models.quantization import formats
from plimsoll.facts.models.quantization.assignment import Assignment, Rule, ordered_rules
from plimsoll.facts.models.quantization.formats import (
    BYTE,
    FOUR_BITS,
    MX_GROUP,
    QuantizationScheme,
    block_shape,
    group_size,
)
from plimsoll.facts.models.quantization.module_list import LAYER_ROOTS, module_list

_SIXTEEN_BITS = 16
_GPTQ, _AWQ = "auto_round:auto_gptq", "auto_round:auto_awq"
_FLOATS = ("fp", "fp8")
_MX = "mx_fp"
_BLOCKS = ("block_name_to_quantize", "to_quant_block_names")
_SPECIAL = frozenset("*+?^$()[]{}|\\")
"""Signs that make the engine take a name for a regular expression (``config_parser.py``)."""

_LANGUAGE_LAYERS = frozenset(root.removesuffix(".") for root in LAYER_ROOTS)


def auto_round(name: str, section: Fields, _fields: Fields) -> Assignment:
    """Single modules first (``extra_config``), then the blocks to quantize, else every linear layer of the decoder."""
    scheme = _scheme(name, section, section)
    rules = tuple(_single_modules(name, section))
    blocks = tuple(_blocks(section))
    if not blocks:
        return Assignment(scheme, rules=rules, experts=scheme, others=scheme)
    others = tuple(block for block in blocks if block not in _LANGUAGE_LAYERS)
    layers = scheme if len(others) < len(blocks) else None
    rules += ((module_list(name, others), scheme),) if others else ()
    return Assignment(scheme, rules=rules, experts=layers, others=layers)


def _scheme(name: str, section: Fields, override: Fields) -> QuantizationScheme:
    """Return the scheme of the file; settings in ``override`` replace those of the file."""
    kind = section.text("data_type") or "int"
    bits = override.optional_integer(("bits",)) or section.integer(("bits",))
    symmetric = override.flag("sym", default=section.flag("sym", default=True))
    sized = override if override.has("group_size") else section
    scheme = None
    if kind == "int":
        scheme = _integers(section, bits, group_size(sized), symmetric=symmetric)
    elif symmetric:
        scheme = _blocks_of_fp8(sized, bits) if kind in _FLOATS else _mx(kind, bits, group_size(sized))
    if scheme is None:
        raise UnsupportedModel(name, f"AutoRound's {_described(section, kind, bits, symmetric=symmetric)}")
    return scheme


def _integers(section: Fields, bits: int, group: int | None, *, symmetric: bool) -> QuantizationScheme | None:
    """Return integers in either packing; None if vLLM has no kernel.

    GPTQ's packing runs on Marlin's kernels alone since 0.23, which want symmetric weights. AWQ's method keeps zero
    points for symmetric weights, too.
    """
    packing = section.text("packing_format") or _GPTQ
    if packing == _GPTQ and bits in {FOUR_BITS, BYTE} and symmetric:
        return formats.gptq(bits, group, activation_order=False)
    if packing == _AWQ and bits == FOUR_BITS:
        return formats.awq(group, zero_points=True)
    return None


def _blocks_of_fp8(section: Fields, bits: int) -> QuantizationScheme | None:
    edges = block_shape(section, "group_size") if bits == BYTE else None
    return None if edges is None else formats.fp8_blocks(*edges)


def _mx(kind: str, bits: int, group: int | None) -> QuantizationScheme | None:
    if _MX not in kind or group != MX_GROUP:
        return None
    return {FOUR_BITS: formats.MXFP4, BYTE: formats.MXFP8}.get(bits)


def _described(section: Fields, kind: str, bits: int, *, symmetric: bool) -> str:
    signs = "" if symmetric else "asymmetric "
    packing = shown(section.text("packing_format") or _GPTQ)
    return f"{signs}{bits}-bit {shown(kind)!r} weights in the packing {packing!r} (quantization_config)"


def _single_modules(name: str, section: Fields) -> Iterator[Rule]:
    """Yield the rules of ``extra_config``: names before patterns, as the engine looks them up."""
    settings = section.section("extra_config")
    if settings is None:
        return
    chosen = {module: _single(name, section, settings, module) for module in settings.values}
    by_scheme: dict[QuantizationScheme | None, list[str]] = {}
    for module, by in chosen.items():
        if not _is_pattern(module):
            by_scheme.setdefault(by, []).append(module)
    yield from ((module_list(name, modules), by) for by, modules in by_scheme.items())
    patterns = ((_anywhere(module), by) for module, by in chosen.items() if _is_pattern(module))
    yield from ordered_rules(name, patterns, all_patterns=True)


def _single(name: str, section: Fields, settings: Fields, module: str) -> QuantizationScheme | None:
    """Return the scheme of one module, None for 16 bits."""
    own = settings.section(module)
    if own is None:
        return _scheme(name, section, section)
    bits = own.optional_integer(("bits",))
    return None if bits is not None and bits >= _SIXTEEN_BITS else _scheme(name, section, own)


def _is_pattern(module: str) -> bool:
    return any(sign in _SPECIAL for sign in module)


def _anywhere(pattern: str) -> str:
    """Return the pattern for a match from the beginning; the engine searches for it anywhere in the name."""
    return pattern if pattern.startswith(("^", ".*")) else f".*{pattern}"


def _blocks(section: Fields) -> Iterator[str]:
    """Yield the names of blocks: one text with commas, a list, or a list of lists."""
    key = section.first(_BLOCKS)
    if key is None:
        return
    value = section.values[key]
    yield from _names(section, key, value.split(",") if isinstance(value, str) else section.items(key))


def _names(section: Fields, key: str, entries: Iterable[object]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, list | tuple):
            yield from _names(section, key, entry)
        elif isinstance(entry, str):
            yield entry.strip().removesuffix(".")
        else:
            raise section.refuse(key, "Write a list of names.")
