"""A kubelet whose containers are processes of this machine, for the tests that need pods which really run.

It does what a test can see of the real one: probes, status, restarts with back-off, last words, hooks, grace periods.
It has no container runtime: an image is a function that says which local program stands for it. Init containers,
volumes of a pod's own, resource limits and references to Secrets or ConfigMaps are not for it; a container that needs
a reference waits, with a reason.
"""
