"""The judge: decides for every engine pod whether the real engine would have started, and lets kwok play it out.

It reads what was *rendered* (container arguments) and where it was *put* (the node's label), not what was meant.
"""

from __future__ import annotations

from typing import Any

from testbed.api_client import ApiClient, ApiError
from testbed.background import BackgroundLoop
from testbed.engine_pods import engine_words, shared_cache_release, shm_bytes
from testbed.judged_models import PRODUCT_LABELS
from testbed.kwok_config import CRASH_ANNOTATION, DEPLOYMENT_LABEL, VERDICT_ANNOTATION
from testbed.verdict import FITS, judge, judge_shared_memory, read_arguments

_ROUND_SECONDS = 0.2


class Judge(BackgroundLoop):
    """A thread that annotates scheduled engine pods with a verdict or a crash.

    Args:
        client: administrator of a control plane that was started with ``judged=True``.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._products: dict[str, str | None] = {}
        super().__init__("testbed-judge", self.judge_once, _ROUND_SECONDS)
        self.verdicts: dict[str, str] = {}
        """Every verdict so far, by ``namespace/pod``."""

    def judge_once(self) -> None:
        """Judge every scheduled engine pod that has no verdict yet."""
        for pod in self._client.cached_pods(DEPLOYMENT_LABEL):
            annotations = pod["metadata"].get("annotations") or {}
            is_judged = VERDICT_ANNOTATION in annotations or CRASH_ANNOTATION in annotations
            if pod["spec"].get("nodeName") and not is_judged and "deletionTimestamp" not in pod["metadata"]:
                self._judge_pod(pod)

    def _judge_pod(self, pod: dict[str, Any]) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        arguments = read_arguments(engine_words(pod))
        verdict = judge_shared_memory(arguments, shared_cache_release(pod), shm_bytes(pod))
        if verdict == FITS:
            verdict = judge(arguments, self._product(pod["spec"]["nodeName"]))
        key = VERDICT_ANNOTATION if verdict == FITS else CRASH_ANNOTATION
        try:
            self._client.merge_patch(
                f"/api/v1/namespaces/{namespace}/pods/{name}", {"metadata": {"annotations": {key: verdict}}}
            )
        except ApiError:
            return  # deleted meanwhile; what still exists is seen again in the next round
        self.verdicts[f"{namespace}/{name}"] = verdict

    def _product(self, node: str) -> str | None:
        if node not in self._products:
            labels = self._client.get(f"/api/v1/nodes/{node}")["metadata"].get("labels") or {}
            self._products[node] = next((labels[key] for key in PRODUCT_LABELS if key in labels), None)
        return self._products[node]
