"""A snapshot of everything that the operator's decision reads, in one file, and the same decision made from it.

No library does this: those that anonymise replace values by what they look like, and here the question is which
fields a decision reads, and which order, ownership and equality of names it needs. Only the digests are a library's
(``hashlib``).
"""
