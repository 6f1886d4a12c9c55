"""``/calculator``."""

from __future__ import annotations

import asyncio

from plimsoll.console.views.calculator.page import calculator_of
from plimsoll.console.visit import Page, Visit


async def calculator(visit: Visit) -> Page:
    """The memory that a model needs: ``plimsoll estimate`` as a form. It asks the core alone, in a thread."""
    found = await asyncio.to_thread(calculator_of, visit.query)
    return Page("calculator.html", "Calculator", {"found": found, "action": visit.path}, is_live=False)
