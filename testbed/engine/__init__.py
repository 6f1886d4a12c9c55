"""A real vLLM on a CPU: its argument parser and its server, for tests of what the operator renders.

Four scripts of this folder run inside the engine's environment and not in the project's: ``list_requirements``,
``make_tokenizer``, ``parse_arguments`` and ``serve``. They are started with ``python -P``, so that the folder's modules
do not stand before those of the environment.
"""
