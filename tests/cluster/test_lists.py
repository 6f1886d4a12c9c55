"""Lists of metadata only, and deletions by uid, as a real API server answers them."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.cluster.client import CONFIG_MAPS, INFERENCE_DEPLOYMENTS, NODES, Cluster, Listing
from plimsoll.adapters.cluster.small_pages import FIRST_OBJECTS
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.render.names import DEPLOYMENT_LABEL
from testbed.control_plane import ControlPlane
from testbed.fleet import gpu_node
from tests.support.installed import View

pytestmark = pytest.mark.cluster


async def test_a_list_of_metadata_has_versions_and_no_content(control_plane: ControlPlane, namespace: str) -> None:
    view = View(control_plane, namespace)
    control_plane.apply([gpu_node("listed", "L4", 1)])
    view.apply("a", gpu={"allow": ["mi300x-192gb"]})
    view.apply("b", gpu={"allow": ["mi300x-192gb"]})
    async with Cluster(str(control_plane.admin_kubeconfig)) as cluster:
        whole = await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace)
        heads = await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace, metadata_only=True)
        assert versions(heads) == versions(whole)
        assert set(versions(whole)) == {"a", "b"}
        assert heads.version >= whole.version > 0
        nodes = await cluster.list(NODES, metadata_only=True)
        assert "listed" in versions(nodes)
        assert all("spec" in body for body in whole.items)
        assert not any("spec" in head for head in (*heads.items, *nodes.items))
        (only,) = (await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace, name="b")).items
        assert (only["metadata"]["name"], "spec" in only) == ("b", True)
        assert not (await cluster.list(INFERENCE_DEPLOYMENTS, namespace=namespace, name="c")).items


async def test_a_list_of_metadata_without_objects_is_a_list(control_plane: ControlPlane, namespace: str) -> None:
    async with Cluster(str(control_plane.admin_kubeconfig)) as cluster:
        labels = "nobody.example/has=this"
        listing = await cluster.list(CONFIG_MAPS, namespace=namespace, labels=labels, metadata_only=True)
    assert listing.items == []
    assert listing.version > 0


async def test_the_first_page_of_names_without_our_label_says_whether_these_are_all(
    control_plane: ControlPlane, namespace: str
) -> None:
    def config_map(name: str, **labels: str) -> dict[str, Any]:
        head = {"name": name, "namespace": namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": {"text": name}}

    foreign = [config_map(f"foreign-{number}") for number in range(FIRST_OBJECTS)]
    control_plane.apply([*foreign, config_map("ours", **{DEPLOYMENT_LABEL: "x"})])
    options: dict[str, Any] = {"labels": f"!{DEPLOYMENT_LABEL}", "namespace": namespace, "metadata_only": True}
    async with Cluster(str(control_plane.admin_kubeconfig)) as cluster:
        first = await cluster.list(CONFIG_MAPS, pages=1, **options)
        every = await cluster.list(CONFIG_MAPS, **options)
    names = {each["metadata"]["name"] for each in foreign} | {"kube-root-ca.crt"}
    assert (len(first.items), first.is_whole) == (FIRST_OBJECTS, False)
    assert (set(versions(every)), every.is_whole) == (names, True)


async def test_a_deletion_is_of_one_uid_and_another_object_of_that_name_stays(
    control_plane: ControlPlane, namespace: str
) -> None:
    heads = [{"name": name, "namespace": namespace} for name in ("ours", "neighbour")]
    control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": head} for head in heads])
    async with Cluster(str(control_plane.admin_kubeconfig)) as cluster:

        async def names() -> set[str]:
            return set(versions(await cluster.list(CONFIG_MAPS, namespace=namespace))) - {"kube-root-ca.crt"}

        key = ObjectKey(namespace, "ours")
        found = await cluster.get(CONFIG_MAPS, key)
        assert found is not None
        await cluster.delete(CONFIG_MAPS, key, "00000000-0000-0000-0000-000000000000")
        assert await names() == {"ours", "neighbour"}
        for _ in range(2):  # the second time it is gone
            await cluster.delete(CONFIG_MAPS, key, found["metadata"]["uid"])
            assert await names() == {"neighbour"}


def versions(listing: Listing) -> dict[str, str]:
    return {body["metadata"]["name"]: body["metadata"]["resourceVersion"] for body in listing.items}
