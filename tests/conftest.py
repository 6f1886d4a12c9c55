"""Fixtures that every test folder may ask for."""

from __future__ import annotations

pytest_plugins = ["tests.support.cluster"]
