"""The part of the Common Expression Language that the CRD's rules use.

The API server evaluates these rules when an object is stored; the command line evaluates the same text before that. A
test compares with the API server.

There are libraries for the whole language. Measured on 2026-11-28: ``common-expression-language`` 0.10 (Rust,
Apache-2.0, beta) gives the same answers to all 1,656 evaluations of the tests' manifests, and brings six distributions
for a prompt of its own that its import loads, in 0.25 s. ``cel-python`` 0.5 brings six as well, and
``cel-expr-python`` 0.1 takes 52 MB. That is much for the offline commands, and for rules that are all written here.
"""
