"""Decisions with the numbers behind them: estimates, outcomes, observations and proposals."""
