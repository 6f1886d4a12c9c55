"""``plimsoll plan`` and ``plimsoll capacity``: on files, on a cluster and on a snapshot."""
