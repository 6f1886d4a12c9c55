"""Which image an engine runs, and that an image made for one vendor never goes to the other's GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.app.settings import Settings
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.engines.images import EngineImages, vendor_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.public_words import Reason
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.placement.explain import rejection_sentence
from plimsoll.placement.plan import plan
from tests.api.manifests import deployment
from tests.render.workloads import container, options, rendered
from tests.support.planning import H100, MI300X, fleet, model, node, placed, pool, refusal, tenant

DIGEST = f"sha256:{'a' * 64}"
BOTH = fleet(node("h", H100), node("m", MI300X))


def reference(images: EngineImages, vendor: Vendor) -> str:
    """The image of vLLM 0.32.0."""
    return images.reference(VLLM.name, vendor, VLLM.image(vendor, "0.32.0"))


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("vllm/vllm-openai", "vllm/vllm-openai:v0.32.0"),
        ("mirror.example:5000/vllm", "mirror.example:5000/vllm:v0.32.0"),
        ("house/vllm:v0.32.0", "house/vllm:v0.32.0"),
        (f"house/vllm:0.32.0@{DIGEST}", f"house/vllm:0.32.0@{DIGEST}"),
        (f"house/vllm:v0.31.0@{DIGEST}", "house/vllm:v0.32.0"),
        ("house/vllm:stable", "house/vllm:stable"),
        (f"house/vllm@{DIGEST}", f"house/vllm@{DIGEST}"),
    ],
)
def test_a_pin_is_for_the_release_that_its_tag_names(given: str, image: str) -> None:
    images = EngineImages(nvidia=given)
    assert reference(images, Vendor.NVIDIA) == image
    assert reference(images, Vendor.AMD) == "vllm/vllm-openai-rocm:v0.32.0"


@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("vllm/vllm-openai", "mirror.example/hub/vllm/vllm-openai:v0.32.0"),
        ("vllm", "mirror.example/hub/vllm:v0.32.0"),
        ("quay.example/vllm", "quay.example/vllm:v0.32.0"),
        ("localhost/vllm", "localhost/vllm:v0.32.0"),
    ],
)
def test_the_registry_goes_before_references_that_name_none(given: str, image: str) -> None:
    assert reference(EngineImages(nvidia=given, registry="mirror.example/hub"), Vendor.NVIDIA) == image


def test_the_admins_images_come_from_the_environment() -> None:
    settings = Settings.from_environment(
        {
            "PLIMSOLL_ENGINE_IMAGE_NVIDIA": "house/cuda",
            "PLIMSOLL_ENGINE_IMAGE_AMD": "house/rocm",
            "PLIMSOLL_ENGINE_REGISTRY": "mirror.example",
        }
    )
    assert settings.images == EngineImages("house/cuda", "house/rocm", "mirror.example")
    assert Settings.from_environment({}).images == EngineImages()


def test_each_vendors_pods_get_the_admins_image_for_it_and_a_users_image_wins() -> None:
    images = EngineImages(nvidia="house/cuda", amd="house/hip", registry="mirror.example")
    given = options(images=images)
    assert container(rendered(given))["image"] == "mirror.example/house/cuda:v0.32.0"
    assert container(rendered(given, where=fleet(node("m", MI300X))))["image"] == "mirror.example/house/hip:v0.32.0"
    assert container(rendered(options(images=images, image="mine:1")))["image"] == "mine:1"
    assert to_workload_options(deployment(), images).images == images


@pytest.mark.parametrize(
    ("reference", "vendor"),
    [("house/vllm:1", Vendor.NVIDIA), ("rocm/vllm:7", Vendor.AMD), ("house/vllm:1-ROCm7", Vendor.AMD)],
)
def test_an_image_is_amds_where_its_reference_says_rocm(reference: str, vendor: Vendor) -> None:
    assert vendor_of(reference) is vendor


def request_of(**engine: Any) -> Any:
    return to_request(deployment(engine=engine), model())


@pytest.mark.parametrize(
    ("engine", "gpu_type"),
    [
        ({"image": "house/vllm:1"}, H100),
        ({"image": "house/vllm:1-rocm"}, MI300X),
        ({"image": "house/vllm:1", "imageVendor": "AMD"}, MI300X),
        ({"image": "house/rocm-free:1", "imageVendor": "NVIDIA"}, H100),
    ],
)
def test_a_users_image_goes_only_to_the_gpus_that_it_is_made_for(engine: dict[str, str], gpu_type: str) -> None:
    outcome = placed(request_of(**engine), BOTH)
    assert outcome.choice.gpu.name == gpu_type
    other = next(name for name in (H100, MI300X) if name != gpu_type)
    assert refusal(outcome, other, 1).reason is Reason.IMAGE_FOR_OTHER_VENDOR


def test_the_refusal_names_both_vendors_and_the_field_that_corrects_it() -> None:
    said = rejection_sentence(refusal(placed(request_of(image="house/vllm:1"), BOTH), MI300X, 1))
    assert said == (
        "spec.engine.image is made for NVIDIA GPUs, this one is AMD's (spec.engine.imageVendor names the vendor)"
    )


def test_without_an_image_of_the_users_both_vendors_are_candidates() -> None:
    outcome = placed(request_of(), BOTH)
    assert Reason.IMAGE_FOR_OTHER_VENDOR not in {each.reason for each in outcome.rejections}


def test_what_runs_with_such_an_image_already_is_left_alone() -> None:
    running = pool(MI300X, bound=1, ready=1, exists=True)
    (decided,) = plan([tenant(request_of(image="house/vllm:1"), running)], BOTH)
    assert [(each.gpu_type, each.replicas) for each in decided.pools] == [(MI300X, 1)]
    assert decided.outgrown is None
    assert decided.missing == 0


def test_a_vendor_without_an_image_build_is_refused() -> None:
    with pytest.raises(InvalidInput, match="imageVendor"):
        deployment(engine={"imageVendor": "Intel", "image": "house/vllm:1"})
