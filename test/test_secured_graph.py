"""With SROS 2 enforced the suite works in its enclaves, and a stranger cannot call ~/set_weights.

Needs a middleware that was built with security; that of PyPI was not.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from rclpy.context import Context  # noqa: E402
from rclpy.executors import SingleThreadedExecutor  # noqa: E402

from edgetpu_msgs.srv import ListModels, SetWeights  # noqa: E402
from testdata.running_nodes.keystore import make_keystore  # noqa: E402
from testdata.timeouts import PATIENCE  # noqa: E402

POLICIES = Path(__file__).parents[1] / "config" / "security" / "policies.xml"


class Participant:
    """A node like that of `ros2 service call`, in an enclave or in none."""

    def __init__(self, enclave: str | None) -> None:
        self._context = Context()
        arguments = ["--ros-args", "--enclave", f"/edgetpu_ros/{enclave}"] if enclave else []
        rclpy.init(args=arguments, context=self._context)
        self.node = rclpy.create_node("_ros2cli_test", context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)

    def call(self, kind: Any, service: str, seconds: float = PATIENCE, **fields: Any) -> Any:
        """Call a service; the response, or None if there is none in time."""
        client = self.node.create_client(kind, service)
        if not client.wait_for_service(seconds):
            return None
        future = client.call_async(kind.Request(**fields))
        self._executor.spin_until_future_complete(future, seconds)
        return future.result()

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@contextmanager
def participant(enclave: str | None) -> Iterator[Participant]:
    made = Participant(enclave)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def secured(ros_domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    """The environment of a secured graph; skipped where the middleware cannot be secured."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the command openssl")
    keystore = tmp_path_factory.mktemp("keystore")
    make_keystore(keystore, POLICIES, ros_domain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_SECURITY_KEYSTORE", str(keystore))
        patch.setenv("ROS_SECURITY_ENABLE", "true")
        patch.setenv("ROS_SECURITY_STRATEGY", "Enforce")
        try:
            with participant("operator"):
                pass
        except Exception as error:
            if "security libraries" not in str(error):
                raise
            pytest.skip("the middleware was built without security")
        yield patch


@pytest.fixture(scope="module")
def nodes(secured: pytest.MonkeyPatch, start_node: Callable[..., Any], model_dir: Path) -> Any:  # noqa: ARG001
    """A driver and a spot tracker, each in its enclave."""
    dirs = f"['{model_dir}']"
    driver = start_node(
        "edgetpu_driver", "edgetpu_node", "--enclave", "/edgetpu_ros/edgetpu", backend="cpu", model_dirs=dirs
    )
    camera = ("-r", "image:=/camera/image_raw", "-r", "camera_info:=/camera/camera_info")
    tracker = start_node(
        "edgetpu_perception",
        "spot_tracker",
        *("--enclave", "/edgetpu_ros/spot_tracker", *camera),
        model_dir=model_dir,
    )
    return driver, tracker


def test_the_nodes_work_with_what_their_policies_allow(nodes: Any) -> None:
    with participant("operator") as operator:
        names: list[str] = []
        while "spot_bright_64x64" not in names:
            answer = operator.call(ListModels, "/edgetpu/list_models")
            assert answer is not None, nodes[0].output
            names = [model.name for model in answer.models]
    for node in nodes:
        assert node.running
        assert "denied" not in node.output.lower()


def test_the_operator_may_set_weights(nodes: Any) -> None:  # noqa: ARG001
    with participant("operator") as operator:
        answer = operator.call(SetWeights, "/edgetpu/set_weights", model="nothing")
    assert (answer.success, answer.message.partition(";")[0]) == (False, "no model 'nothing' is loaded")


def test_a_client_may_list_models_but_not_set_weights(nodes: Any) -> None:  # noqa: ARG001
    with participant("client") as client:
        assert client.call(ListModels, "/edgetpu/list_models").success
        with pytest.raises(Exception, match=r"(?i)create|permission|denied"):
            client.call(SetWeights, "/edgetpu/set_weights", model="nothing")


def test_a_stranger_does_not_find_the_driver(nodes: Any, secured: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    with secured.context() as patch:
        patch.delenv("ROS_SECURITY_ENABLE")
        with participant(None) as stranger, pytest.MonkeyPatch.context() as enabled:
            assert stranger.call(SetWeights, "/edgetpu/set_weights", seconds=5.0, model="nothing") is None
            enabled.setenv("ROS_SECURITY_ENABLE", "true")
            with participant("operator") as operator:  # the driver is there, and answers
                assert operator.call(SetWeights, "/edgetpu/set_weights", model="nothing") is not None
