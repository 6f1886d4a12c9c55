"""Checks of a spec that the CRD cannot make, or makes with less to say."""
