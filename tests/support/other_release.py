"""The operator as another release of it, which renders pods differently: ``python -m tests.support.other_release``.

``OTHER_RELEASE=before-digests`` plays a release that wrote no digest of what a template was made from and compared
every field; a number plays a release with that rendering. Releases before rendering 3 let the scheduler spread engines.
"""

from __future__ import annotations

import os
from typing import Any

from plimsoll.app.write import executor
from plimsoll.cli.main import main
from plimsoll.domain.requests.workload import Manifest
from plimsoll.render import inputs, objects

BEFORE_DIGESTS = "before-digests"
SPREADING = "2"
NEXT = str(inputs.RENDERING + 1)


def play(release: str) -> None:
    """Change what is rendered to what that release would render."""
    real_template = vars(objects)["pod_template"]

    def template(*arguments: Any) -> Manifest:
        made: Manifest = real_template(*arguments)
        made["spec"]["terminationGracePeriodSeconds"] += 1
        made["spec"]["containers"][0]["env"] = made["spec"]["containers"][0]["env"][:-1]
        if release in (BEFORE_DIGESTS, SPREADING):
            del made["spec"]["affinity"]["podAffinity"]
        return made

    vars(objects)["pod_template"] = template
    if release == BEFORE_DIGESTS:
        real_stamp = objects.stamped

        def without_digest(manifest: Manifest) -> Manifest:
            annotations = manifest["metadata"].get("annotations", {})
            for name in (inputs.INPUTS_ANNOTATION, inputs.RENDERING_ANNOTATION):
                annotations.pop(name, None)
            return real_stamp(manifest)

        vars(objects)["stamped"] = without_digest
        vars(executor)["is_left_running"] = lambda *_: False
    else:
        for module in (objects, inputs):
            vars(module)["RENDERING"] = int(release)


if __name__ == "__main__":
    play(os.environ["OTHER_RELEASE"])
    main()
