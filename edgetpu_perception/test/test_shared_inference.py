"""Several clients that ask about the same images share inferences and a joint graph."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetpu_driver import CpuEngine
from edgetpu_driver.backends.factory import make_backend
from edgetpu_driver.backends.virtual import pack_for_virtual_stick
from edgetpu_driver.host.model_host import ModelHost
from edgetpu_driver.host.models.inference_result import InferenceResult
from edgetpu_driver.host.requests.request_terms import RequestTerms
from edgetpu_driver.host.shared_inference import image_groups, shared_inference
from edgetpu_driver.toolchain.graph_family import joint_name
from edgetpu_driver.weights.weight_request import WeightRequest
from edgetpu_perception.graphs import families
from testdata.timeouts import PATIENCE

HEADS = ("features1_64x64", "looming_64x64", "pattern_64x64_16x16", "spot_bright_64x64")
SOON = 40
"""Images in which groups learn of any change."""

Outputs = Mapping[str, NDArray[Any]]


@pytest.fixture(autouse=True)
def remembered_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image is remembered until KEPT others have come, though the next client may ask late."""
    monkeypatch.setattr(image_groups, "WINDOW", PATIENCE)


@pytest.fixture(params=["cpu", "virtual"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ModelHost]:
    for name in (*HEADS, "looming_96x96", "spot_color_7ec1c1_64x64"):
        families.write_model(name, tmp_path)
    host = ModelHost(make_backend(request.param), [tmp_path])
    host.connect()
    yield host
    host.close()


class Camera:
    """Images that never repeat, and what single graphs make of them."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(5)
        self._engines: dict[str, CpuEngine] = {}

    def image(self, size: int = 64, channels: int = 1) -> NDArray[np.uint8]:
        return self._random.integers(0, 256, (1, size, size, channels), dtype=np.uint8)

    def expected(self, model: str, image: NDArray[np.uint8]) -> Outputs:
        if model not in self._engines:
            self._engines[model] = CpuEngine(families.build(model))
        return self._engines[model].run({"image": image})


def ask(host: ModelHost, model: str, image: NDArray[np.uint8], client: str = "") -> InferenceResult:
    return host.invoke(model, {"image": image}, RequestTerms(client or f"/{model}"))


def ask_all(host: ModelHost, models: tuple[str, ...], image: NDArray[np.uint8]) -> dict[str, InferenceResult]:
    return {model: ask(host, model, image) for model in models}


def load(host: ModelHost, models: tuple[str, ...] = HEADS) -> None:
    for model in models:
        host.load(model)


def settle(host: ModelHost, models: tuple[str, ...], camera: Camera, count: int = 1) -> None:
    """Ask about images until so many inferences answer all of the models, some times in succession."""
    end, successes = time.monotonic() + PATIENCE, 0
    while successes < SOON:
        right = inferences(host, lambda: ask_all(host, models, camera.image())) == count
        successes = successes + 1 if right else 0
        assert time.monotonic() < end, f"expected {count} inferences for {', '.join(models)}"


def inferences(host: ModelHost, work: Callable[[], object]) -> int:
    before = host.status().inferences
    work()
    return host.status().inferences - before


def same(result: InferenceResult, expected: Outputs) -> bool:
    return result.outputs.keys() == expected.keys() and all(
        result.outputs[name].dtype == array.dtype and np.array_equal(result.outputs[name], array)
        for name, array in expected.items()
    )


def random_template(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).integers(-127, 128, (1, 16, 16, 1)).astype(np.float32)


def with_template(image: NDArray[np.uint8], template: NDArray[np.float32]) -> Outputs:
    engine = CpuEngine(families.build("pattern_64x64_16x16"))
    engine.set_weights(template)
    return engine.run({"image": image})


def test_models_asked_about_the_same_images_are_run_as_one(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    settle(host, HEADS, camera)
    image, results = camera.image(), {}
    assert inferences(host, lambda: results.update(ask_all(host, HEADS, image))) == 1
    for model, result in results.items():
        assert same(result, camera.expected(model, image)), model
        assert result.model_sha256 == host.model(model).sha256


def test_no_more_joint_graphs_are_made_than_may_be(host: ModelHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_inference, "MOST_JOINT", 1)
    camera, models = Camera(), HEADS[:2]
    load(host, models)
    settle(host, models, camera)

    def ask_of_another_camera() -> None:
        image = camera.image()
        for model in models:
            ask(host, model, image, client=f"/other/{model}")

    assert [inferences(host, ask_of_another_camera) for _ in range(2 * SOON)] == [2] * 2 * SOON


def test_models_compiled_together_with_another_one_stay_in_the_memory_next_to_it(tmp_path: Path) -> None:
    graphs = {name: families.build(name) for name in (*HEADS, "looming_96x96")}
    for name, data in pack_for_virtual_stick(graphs, together=True).items():
        (tmp_path / f"{name}.tflite").write_bytes(graphs[name])
        (tmp_path / f"{name}_edgetpu.tflite").write_bytes(data)
    lines: list[str] = []
    host = ModelHost(make_backend("virtual"), [tmp_path], report=lines.append)
    host.connect()
    camera = Camera()
    load(host)
    settle(host, HEADS, camera)
    other = host.load("looming_96x96")
    settle(host, HEADS, camera, len(HEADS))
    assert "'looming_96x96' was compiled together with them, and the joint graph was not" in lines[-1]
    ask(host, other.name, camera.image(96))
    before = [model.uploads for model in host.models()]
    for _ in range(3):
        ask_all(host, HEADS, camera.image())
        ask(host, other.name, camera.image(96))
    assert [model.uploads for model in host.models()] == before
    host.unload(other.name)
    settle(host, HEADS, camera)
    host.close()


def test_models_asked_about_different_images_are_not(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    for _ in range(SOON):
        for model in HEADS:
            ask(host, model, camera.image())
    host.load(HEADS[0])  # loads are done one after another
    for model in HEADS:
        image = camera.image()
        assert same(ask(host, model, image), camera.expected(model, image))
    assert inferences(host, lambda: ask_all(host, HEADS, camera.image())) == len(HEADS)


def test_weights_set_on_a_head_are_used_in_the_joint_graph(host: ModelHost) -> None:
    camera, template = Camera(), random_template()
    load(host)
    settle(host, HEADS, camera)
    host.set_weights("pattern_64x64_16x16", WeightRequest(template))
    settle(host, HEADS, camera)
    image, results = camera.image(), {}
    assert inferences(host, lambda: results.update(ask_all(host, HEADS, image))) == 1
    assert same(results["pattern_64x64_16x16"], with_template(image, template))
    assert results["pattern_64x64_16x16"].weights_version == 1
    for model in (HEADS[0], HEADS[1], HEADS[3]):
        assert same(results[model], camera.expected(model, image))
        assert results[model].weights_version == 0


def test_a_head_has_new_weights_from_the_answer_on(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    settle(host, HEADS, camera)
    for seed in range(5):
        template, image = random_template(seed), camera.image()
        ask(host, "looming_64x64", image)  # with the weights before, for all heads
        host.set_weights("pattern_64x64_16x16", WeightRequest(template))
        result = ask(host, "pattern_64x64_16x16", image)
        assert same(result, with_template(image, template))
        assert result.weights_version == seed + 1


def test_weights_set_before_the_joint_graph_was_made_are_used_in_it(host: ModelHost) -> None:
    camera, template = Camera(), random_template()
    load(host)
    host.set_weights("pattern_64x64_16x16", WeightRequest(template))
    settle(host, HEADS, camera)
    image, results = camera.image(), {}
    assert inferences(host, lambda: results.update(ask_all(host, HEADS, image))) == 1
    assert same(results["pattern_64x64_16x16"], with_template(image, template))


def test_a_device_that_returns_has_the_weights_of_all_heads(host: ModelHost) -> None:
    camera, template = Camera(), random_template()
    load(host)
    settle(host, HEADS, camera)
    host.set_weights("pattern_64x64_16x16", WeightRequest(template))
    host.reset()
    host.connect()
    settle(host, HEADS, camera)
    image, results = camera.image(), {}
    assert inferences(host, lambda: results.update(ask_all(host, HEADS, image))) == 1
    assert same(results["pattern_64x64_16x16"], with_template(image, template))


def test_two_heads_of_one_graph_have_weights_of_their_own(host: ModelHost) -> None:
    camera, names = Camera(), ("/a/pattern", "/b/pattern")
    for number, name in enumerate(names):
        host.load("pattern_64x64_16x16", name[1:], client=name)
        host.set_weights(name[1:], WeightRequest(random_template(number)), RequestTerms(name))
    models = tuple(name[1:] for name in names)
    settle(host, models, camera)
    image, results = camera.image(), {}
    assert inferences(host, lambda: results.update(ask_all(host, models, image))) == 1
    for number, model in enumerate(models):
        assert same(results[model], with_template(image, random_template(number)))


def test_a_node_that_ends_leaves_the_joint_graph(host: ModelHost) -> None:
    camera, rest = Camera(), HEADS[:2]
    load(host)
    settle(host, HEADS, camera)
    whole = ask(host, HEADS[0], camera.image()).device_duration
    settle(host, rest, camera)
    image = camera.image()
    assert same(ask(host, HEADS[1], image), camera.expected(HEADS[1], image))
    if math.isfinite(seconds := ask(host, HEADS[0], camera.image()).device_duration):
        assert seconds < whole


def test_a_node_without_partners_runs_its_own_graph(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    settle(host, HEADS, camera)
    whole = ask(host, HEADS[0], camera.image()).device_duration
    settle(host, HEADS[:1], camera)
    if math.isfinite(seconds := ask(host, HEADS[0], camera.image()).device_duration):
        assert seconds < whole / 2


def test_a_node_that_starts_joins_the_others(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    settle(host, HEADS[:3], camera)
    settle(host, HEADS, camera)
    assert inferences(host, lambda: ask_all(host, HEADS, camera.image())) == 1


def test_eyes_of_another_size_or_colour_ask_apart(host: ModelHost) -> None:
    camera = Camera()
    load(host, (*HEADS, "looming_96x96", "spot_color_7ec1c1_64x64"))

    def ask_six() -> None:
        ask_all(host, HEADS, camera.image())
        ask(host, "looming_96x96", camera.image(96))
        ask(host, "spot_color_7ec1c1_64x64", camera.image(channels=3))

    end = time.monotonic() + PATIENCE
    while inferences(host, ask_six) != 3:
        assert time.monotonic() < end
    large = camera.image(96)
    assert same(ask(host, "looming_96x96", large), camera.expected("looming_96x96", large))


def test_clients_of_one_model_share_its_result(host: ModelHost) -> None:
    camera, image = Camera(), Camera().image()
    host.load(HEADS[0])
    results = []

    def two_clients() -> None:
        results.extend(ask(host, HEADS[0], image, client) for client in ("/flow", "/compass"))

    assert inferences(host, two_clients) == 1
    assert all(same(result, camera.expected(HEADS[0], image)) for result in results)


def test_a_client_that_asks_twice_gets_two_inferences(host: ModelHost) -> None:
    image = Camera().image()
    host.load(HEADS[0])
    assert inferences(host, lambda: [ask(host, HEADS[0], image, "/flow") for _ in range(2)]) == 2


def test_a_model_that_is_reloaded_leaves_the_joint_graph(host: ModelHost) -> None:
    camera = Camera()
    load(host)
    settle(host, HEADS, camera)
    host.unload("pattern_64x64_16x16")
    host.load("pattern_64x64_16x16")
    image = camera.image()
    ask_all(host, HEADS, image)
    settle(host, HEADS, camera)
    assert inferences(host, lambda: ask_all(host, HEADS, camera.image())) == 1


def compiled_only(tmp_path: Path, names: tuple[str, ...], told: SimpleQueue[str]) -> ModelHost:
    """A host that runs compiled models only, as one with a real stick does."""
    for name in names:
        families.write_model(name, tmp_path)
        packed = pack_for_virtual_stick({name: families.build(name)}, together=False)[name]
        (tmp_path / f"{name}_edgetpu.tflite").write_bytes(packed)
    backend = make_backend("virtual")
    backend.uncompiled = False
    host = ModelHost(backend, [tmp_path], report=told.put)
    host.connect()
    return host


def test_without_a_compiled_joint_graph_models_are_run_one_by_one(tmp_path: Path) -> None:
    models, told, camera = HEADS[:2], SimpleQueue[str](), Camera()
    host = compiled_only(tmp_path, models, told)
    load(host, models)
    settle(host, models, camera, count=2)
    host.load(HEADS[0])  # after what else is to be loaded
    host.close()
    line = told.get(timeout=PATIENCE)
    assert "features1_64x64, looming_64x64 are run one by one" in line
    assert "features1_64x64_and_looming_64x64_edgetpu.tflite" in line
    assert told.empty()


def test_a_compiled_joint_graph_is_used_where_graphs_must_be_compiled(tmp_path: Path) -> None:
    models, told, camera = HEADS[:2], SimpleQueue[str](), Camera()
    host = compiled_only(tmp_path, (*models, joint_name(models)), told)
    load(host, models)
    settle(host, models, camera)
    image = camera.image()
    for model, result in ask_all(host, models, image).items():
        assert same(result, camera.expected(model, image))
    host.close()
    assert told.get(timeout=PATIENCE) == "features1_64x64, looming_64x64 are run as one graph"
