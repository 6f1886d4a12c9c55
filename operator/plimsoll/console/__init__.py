"""The console: pages about the fleet and its deployments for people. A process of its own."""
