"""The script that makes the table of options of older releases from their sources."""

from __future__ import annotations

from plimsoll.domain.engines.engine_choice import EngineVersion
from scripts.older_options import older_options, options_in

ENGINE = """
class EngineArgs:
    seed: Optional[int] = None
    delay: float = 0.0
    enable_x: bool = False
    guided_disable: bool = False
    names: list[str] = []
    extra: Optional[Dict[str, Any]] = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--old", "-o", type=int, default=1)
        parser.add_argument("--many", type=nullable_str, nargs="+")
        parser.add_argument("--maybe", action=StoreBoolean, nargs="?", const="True")
        parser.add_argument("--flag", action="store_true")
        parser.add_argument("--both", action=argparse.BooleanOptionalAction)
        group.add_argument("--seed", **model_kwargs["seed"])
        group.add_argument("--delay", **kwargs["delay_factor"])
        group.add_argument("--enable-x", **kwargs["x"])
        group.add_argument("--names", **kwargs["names"])
        group.add_argument("--extra", **kwargs["extra"])
        group.add_argument("positional", type=int)
"""
SERVER = """
class FrontendArgs:
    host: str | None = None
    use_gpu: bool = False

class Other:
    ignored: int = 1
"""
ROWS = {
    "--old -o whole",
    "--many text+",
    "--maybe text?",
    "--flag switch",
    "--both --no-both switch",
    "--seed whole",
    "--delay number",
    "--enable-x --no-enable-x switch",
    "--names text+",
    "--extra text",
    "--host text",
    "--use-gpu --no-use-gpu switch",
}


def test_every_way_of_writing_an_option_is_read() -> None:
    assert {each.row for each in options_in([ENGINE, SERVER]).values()} == ROWS


def test_what_the_first_recorded_release_has_is_left_out_and_the_newest_kind_counts() -> None:
    first = options_in(['p.add_argument("--gone", type=int)', 'p.add_argument("--seed", type=int)'])
    second = options_in(['p.add_argument("--gone", type=float)'])
    found = older_options({EngineVersion(0, 10): second, EngineVersion(0, 9): first})
    assert [each.row for each in found] == ["--gone number"]
