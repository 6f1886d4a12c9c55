"""The inference engines: everything that is known of one engine and of no other is in its own folder here.

:mod:`plimsoll.engines.base` says what an engine must be able to answer, :mod:`plimsoll.engines.registry` which engines
there are.
"""
