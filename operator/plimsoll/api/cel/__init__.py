"""The part of the Common Expression Language that the CRD's rules use.

The API server evaluates these rules when an object is stored; the command line evaluates the same text before that. A
library for the whole language needs compiled regular expressions and a parser generator, so it would be the largest
dependency of the offline commands, for forty rules that are all written here. A test compares with the API server.
"""
