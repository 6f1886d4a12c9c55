"""What runs inside the engine's environment. It imports no project code but ``testbed.engine.oracle``."""
