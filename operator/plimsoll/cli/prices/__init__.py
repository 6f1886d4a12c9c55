"""``plimsoll prices``: prices from files and manifests, and tables of them."""
