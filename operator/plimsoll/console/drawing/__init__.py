"""Geometry of hulls, bars and maps. A macro of the templates prints it as SVG."""
