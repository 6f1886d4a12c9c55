"""How fast is the console on a large cluster, and how much memory does it take?"""
