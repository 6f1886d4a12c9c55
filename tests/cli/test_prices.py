"""``prices`` and ``prices check``: what holds, and whether a list of one's own can be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
CARRIED = ROOT / "operator" / "plimsoll" / "catalog" / "prices.csv"
MINIMAL, FLEET = str(ROOT / "examples/01-minimal/deployment.yaml"), str(ROOT / "examples/fleet.yaml")
GOOD = "gpu_type,capacity_type,usd_per_hour,date_to\nh100-sxm-80gb,,2.95,2026-11-01\nh100-sxm-80gb,spot,1.10,\n"
THIN = "gpu_type,usd_per_hour,voters\nl4-24gb,0.50,1\nh100-sxm-80gb,3,9\n"
CONFIG_MAP = "kind: ConfigMap\nmetadata: {name: p, namespace: n}\ndata:\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)

    def written(text: str, name: str = "own.csv") -> str:
        (tmp_path / name).write_text(text)
        return name

    return written


def row(shown: str, name: str) -> list[str]:
    (line,) = (line.split() for line in shown.splitlines() if line.split()[:1] == [name])
    return line


class TestCheck:
    def test_a_list_that_can_be_used_is_shown(self, run: Run, write: Callable[..., str]) -> None:
        file = write(GOOD)
        status, shown, said = run("prices", "check", file)
        assert status == 0
        assert row(shown, "h100-sxm-80gb") == ["h100-sxm-80gb", "2.95", "1.10", "-", "-", "-", "2026-11-01", file]
        assert said == "GPU types with a price: 1; errors: 0; warnings: 0. A price is old after 120 days.\n"

    def test_the_catalogue_s_own_list_is_a_valid_one(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(CARRIED.parent)
        status, shown, said = run("prices", "check", CARRIED.name)
        assert status == 0
        assert "error:" not in said
        assert row(shown, "h100-sxm-80gb")[1:4] == ["3.08", "1.28", "11.06"]

    def test_warnings_pass_and_fail_where_they_are_asked_to(self, run: Run, write: Callable[..., str]) -> None:
        file = write(THIN)
        status, shown, said = run("prices", "check", file)
        assert (status, row(shown, "l4-24gb")[-1], row(shown, "h100-sxm-80gb")[-1]) == (0, "thin", file)
        assert "warning: ThinPrice: l4-24gb: its price comes from 1 provider only" in said
        assert run("prices", "check", file, "--strict")[0] == 1
        assert run("prices", "check", write(GOOD), "--strict")[0] == 0

    def test_an_old_price_and_an_order_upside_down_are_warnings(self, run: Run, write: Callable[..., str]) -> None:
        lines = "h100-sxm-80gb,4.10,2026-11-01\nh200-sxm-141gb,3.90,2026-03-01\n"
        status, shown, said = run("prices", "check", write(f"gpu_type,usd_per_hour,date_to\n{lines}"))
        assert status == 0
        assert "OldPrice: h200-sxm-141gb: its newest offer is of 2026-03-01, 266 days ago" in said
        assert "PricesUpsideDown: h200-sxm-141gb: it costs $3.90/h" in said
        assert "old, below a lesser card" in shown

    def test_errors_name_the_line_and_the_good_rows_are_shown(self, run: Run, write: Callable[..., str]) -> None:
        file = write(GOOD + "h100,,2,\nl4-24gb,,cheap,\n")
        status, shown, said = run("prices", "check", file)
        assert status == 1
        assert f"error: {file}: line 4: gpu_type: 'h100' is no GPU type; did you mean h100-nvl-94gb" in said
        assert f"error: {file}: line 5: usd_per_hour: 'cheap' is no price of l4-24gb" in said
        assert row(shown, "h100-sxm-80gb")[1] == "2.95"

    def test_a_config_map_is_checked_entry_by_entry(self, run: Run, write: Callable[..., str]) -> None:
        good = write(CONFIG_MAP + "  l4-24gb: '0.7'\n  l4-24gb.spot: '0.3'\n", "good.yaml")
        status, shown, _ = run("prices", "check", good)
        assert status == 0
        assert row(shown, "l4-24gb")[1:3] == ["0.70", "0.30"]
        bad = write(CONFIG_MAP + "  l4: '0.7'\n", "bad.yaml")
        status, _, said = run("prices", "check", bad)
        assert status == 1
        assert "error: n/p: l4 is no GPU type; did you mean l4-24gb" in said

    def test_a_list_comes_from_standard_input_too(self, run: Run) -> None:
        status, shown, _ = run("prices", "check", "-", stdin=GOOD)
        assert status == 0
        assert row(shown, "h100-sxm-80gb")[1] == "2.95"

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("a.yaml", "kind: Secret\n", "FILE: "),
            ("a.yaml", "{", "It is not YAML"),
            ("a.yaml", CONFIG_MAP[:-7] + "data: 3\n- x", "It is not YAML"),
        ],
    )
    def test_a_file_that_is_no_list_at_all_is_bad_input(
        self, run: Run, write: Callable[..., str], name: str, text: str, said: str
    ) -> None:
        status, _, errors = run("prices", "check", write(text, name))
        assert status == 2
        assert errors.startswith("error: ")
        assert said in errors

    def test_a_file_that_is_not_there_is_bad_input(self, run: Run) -> None:
        status, _, said = run("prices", "check", "/no/such/file.csv")
        assert (status, "It cannot be read" in said) == (2, True)

    def test_json_has_prices_warnings_and_errors(self, run: Run, write: Callable[..., str]) -> None:
        status, shown, _ = run("prices", "check", write(THIN + "x,1,1\n"), "-o", "json")
        document: dict[str, Any] = json.loads(shown)
        assert status == 1
        assert [(each["gpuType"], each["usdPerHour"]) for each in document["prices"]] == [
            ("h100-sxm-80gb", "3"),
            ("l4-24gb", "0.5"),
        ]
        (warning,) = document["warnings"]
        assert (warning["reason"], warning["gpuType"], warning["numbers"]["voters"]) == ("ThinPrice", "l4-24gb", 1)
        assert warning["message"].endswith(".")
        (error,) = document["errors"]
        assert "line 4" in error


class TestPricesInForce:
    def test_the_catalogue_s_prices_are_listed_with_their_evidence(self, run: Run) -> None:
        status, shown, said = run("prices")
        assert status == 0
        assert row(shown, "h100-sxm-80gb") == [
            *("h100-sxm-80gb", "3.08", "1.28", "11.06"),
            *("26", "+", "14", "14", "+", "10", "2026-08-21", "catalog"),
        ]
        assert row(shown, "mi350x-288gb")[-3:] == ["old,", "thin,", "clamped"]
        assert [line for line in shown.splitlines() if "h20-96gb" in line] == []
        assert len([line for line in said.splitlines() if line.startswith("warning: ")]) == 2

    def test_own_prices_win_and_the_others_stay(self, run: Run, write: Callable[..., str]) -> None:
        own = write(CONFIG_MAP + "  h100-sxm-80gb: '2.00'\n", "own.yaml")
        _, shown, _ = run("prices", "--prices", own)
        assert row(shown, "h100-sxm-80gb")[1:3] == ["2.00", "-"]
        assert row(shown, "l4-24gb")[1] == "0.42"

    def test_a_whole_list_replaces_the_catalogue_s(self, run: Run, write: Callable[..., str]) -> None:
        status, shown, _ = run("prices", "--prices", write(GOOD), "-o", "json")
        assert status == 0
        assert {each["gpuType"] for each in json.loads(shown)["prices"]} == {"h100-sxm-80gb"}

    def test_a_list_with_errors_is_refused(self, run: Run, write: Callable[..., str]) -> None:
        status, shown, said = run("prices", "--prices", write(GOOD + "x,,1,\n"))
        assert (status, shown) == (2, "")
        assert "line 4: gpu_type: 'x' is no GPU type" in said

    def test_json_has_one_document_for_each_price(self, run: Run) -> None:
        _, shown, _ = run("prices", "-o", "json")
        found = {(each["gpuType"], each["capacityType"]): each for each in json.loads(shown)["prices"]}
        priced = [gpu for gpu in load_gpu_types() if gpu.price is not None and not gpu.is_slice]
        assert len(found) == len(priced) + len([gpu for gpu in priced if gpu.price and gpu.price.spot])
        gb200 = found["gb200-186gb", "on-demand"]
        assert (gb200["thin"], gb200["clamped"], gb200["voters"], gb200["hyperscalerUsdPerHour"]) == (
            True,
            True,
            2,
            "27.04",
        )


class TestPlan:
    def test_doubts_about_the_fleet_s_prices_are_said_once_below_the_plan(
        self, run: Run, write: Callable[..., str]
    ) -> None:
        lines = "\n".join(f"{name},1,1" for name in ("l4-24gb", "l40s-48gb", "b200-sxm-180gb"))
        file = write(f"gpu_type,usd_per_hour,voters\n{lines}\n")
        status, shown, said = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", file)
        assert status == 0
        assert said == ("warning: ThinPrice: these prices come from one or two providers only: l4-24gb, l40s-48gb.\n")
        assert f"Price: $1.00/h for one replica ({file}: 1 vote); placement counts half of it" in " ".join(
            shown.split()
        )

    def test_prices_without_a_doubt_raise_no_warning(self, run: Run, write: Callable[..., str]) -> None:
        own = write(CONFIG_MAP + "  l4-24gb: '0.7'\n", "own.yaml")
        status, _, said = run("plan", "-f", MINIMAL, "--fleet", FLEET, "--prices", own, "-o", "json")
        assert (status, said) == (0, "")
