"""The question whether one's own replica would be cheaper than an API, from the options of ``plimsoll estimate``."""

from __future__ import annotations

import math
from dataclasses import replace

from plimsoll.cli.questions.asked import ApiQuestion, EstimateQuestion, TypedOptions
from plimsoll.domain.errors import InvalidInput
from plimsoll.performance.break_even import IDLE_SECONDS, ApiPrice
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS

_OPTION = "--against-price"
_MOST_DOLLARS = 1_000_000.0
_DAY_HOURS, _DAY_SECONDS = 24, 86_400


def with_api(question: EstimateQuestion, asked: TypedOptions) -> EstimateQuestion:
    """Return the question with what is asked about an API; the same object if nothing is.

    Raises:
        InvalidInput: an option cannot be used, or lacks another one.
    """
    hours, startup = asked.busy_hours, asked.startup
    if asked.against_price is None:
        needs_it = (("--requests-per-day", asked.requests_per_day), ("--busy-hours", hours), ("--startup", startup))
        for option, value in needs_it:
            if value is not None:
                raise InvalidInput(option, value, f"Name {_OPTION} as well, the price of the API that it is about.")
        return question
    shape = question.request.shape
    if shape.expected_prompt_tokens is None or shape.expected_output_tokens is None:
        fix = "Name --prompt and --output-tokens, the mean lengths of a request, or spec.expectedTokens of a manifest."
        raise InvalidInput(_OPTION, asked.against_price, fix)
    if startup is not None and not 0 < startup <= _DAY_SECONDS:
        raise InvalidInput("--startup", startup, f"Write seconds, more than 0 and {_DAY_SECONDS:,} at most.")
    api = ApiQuestion(
        price=_price(asked.against_price),
        hours=_DAY_HOURS if hours is None else hours,
        requests=asked.requests_per_day,
        startup_seconds=FIRST_STARTUP_SECONDS if startup is None else float(startup),
        idle_seconds=IDLE_SECONDS if question.idle_seconds is None else question.idle_seconds,
    )
    return replace(question, api=api)


def _price(text: str) -> ApiPrice:
    try:
        prompt, output = (float(each) for each in text.split(","))
    except ValueError:
        prompt = output = math.nan
    if not (0 <= prompt <= _MOST_DOLLARS and 0 <= output <= _MOST_DOLLARS and prompt + output > 0):
        fix = "Write US dollars for a million prompt tokens and a million output tokens with a comma, e.g. 0.15,0.60."
        raise InvalidInput(_OPTION, text, fix)
    return ApiPrice(prompt, output)
