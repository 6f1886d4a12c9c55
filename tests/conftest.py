"""Fixtures and settings for every test folder."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.support.cluster"]

# An example that takes long on a busy machine is no failure of the code.
settings.register_profile("no-deadline", settings(), deadline=None)
settings.load_profile("no-deadline")
