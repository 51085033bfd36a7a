"""config/security/policies.xml: well-formed, and what is reserved for operators is denied to others."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgetpu_driver.node_kit.node_table import DRIVER, node_table

pytest.importorskip("edgetpu_msgs", reason="needs a built workspace (make test)")

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.installed_nodes.node_interfaces import Interfaces
from edgetpu_driver.node_kit.installed_nodes.security_policies import enclaves, policy_file

POLICIES = ElementTree.parse(Path(__file__).parents[1] / "config" / "security" / "policies.xml").getroot()

NODES = [DRIVER, *node_table()]

RESTRICTED = re.compile(
    r".*/(change_state|set_parameters(_atomically)?|reset\w*|load_\w+|unload_model|set_weights|set_color"
    r"|set_template|save_\w+|add_place|remove_place|train_readout|learn|forget)"
)


def names_of(enclave: str, right: str) -> set[str]:
    found = POLICIES.iterfind(
        f"enclaves/enclave[@path='/edgetpu_ros/{enclave}']/profiles/profile/*[@{right}]/*"
    )
    return {name.text or "" for name in found}


def test_every_node_has_an_enclave() -> None:
    paths = [enclave.attrib["path"] for enclave in POLICIES.iterfind("enclaves/enclave")]
    assert paths == [f"/edgetpu_ros/{name}" for name in [*NODES, "single_process", "operator", "client"]]


def elements(name: str) -> Iterator[ElementTree.Element]:
    yield from POLICIES.iter(name)


def test_the_file_follows_the_schema_0_2_0() -> None:
    assert (POLICIES.tag, POLICIES.attrib) == ("policy", {"version": "0.2.0"})
    assert [child.tag for child in POLICIES] == ["enclaves"]
    children = {"enclaves": "enclave", "enclave": "profiles", "profiles": "profile"}
    children |= {"topics": "topic", "services": "service"}
    for parent, child in children.items():
        for element in elements(parent):
            assert {each.tag for each in element} == {child}
    for profile in elements("profile"):
        assert profile.attrib.keys() == {"ns", "node"}
        groups = [(group.tag, *group.attrib.items()) for group in profile]
        assert len(set(groups)) == len(groups)
        rights = {
            ("topics", "publish"),
            ("topics", "subscribe"),
            ("services", "reply"),
            ("services", "request"),
        }
        assert set(groups) <= {(tag, (right, "ALLOW")) for tag, right in rights}
    for name in [*elements("topic"), *elements("service")]:
        assert re.fullmatch(r"(/[\w*]+)+", name.text or "")


@pytest.mark.parametrize("node", [node for node in NODES if node != "dashboard"])
def test_single_process_may_do_what_each_of_its_nodes_may(node: str) -> None:
    for right in ("publish", "subscribe", "reply", "request"):
        assert names_of(node, right) <= names_of("single_process", right)


def test_the_operator_may_call_every_service() -> None:
    provided = {name for node in NODES for name in names_of(node, "reply")}
    assert names_of("operator", "request") == provided


def test_a_client_may_run_models_but_change_nothing() -> None:
    may = names_of("client", "request")
    assert {"/edgetpu/invoke", "/edgetpu/matmul", "/place_recognition/find_place"} <= may
    assert {name for name in may if RESTRICTED.fullmatch(name)} == set()


def test_every_restricted_service_is_for_the_operator_only_but_for_the_models_of_the_nodes() -> None:
    restricted = {name for node in NODES for name in names_of(node, "reply") if RESTRICTED.fullmatch(name)}
    of_models = {f"/edgetpu/{name}" for name in ("load_model", "unload_model", "set_weights")}
    assert len(restricted) > 30
    for node in {*NODES, "single_process"} - {"dashboard"}:
        assert names_of(node, "request") & restricted <= of_models
        assert names_of(node, "request") <= of_models | {"/edgetpu/invoke"}


def test_the_dashboard_may_read_results_and_call_what_its_page_offers_but_no_files_and_states() -> None:
    seen = names_of("dashboard", "subscribe")
    assert {"/camera/image_raw", "/looming/debug_image", "/looming/time_to_contact", "/diagnostics"} <= seen
    assert {"/cmd_vel_in", "/cmd_vel", "/visual_servo/cmd_vel", "/odom"} <= seen
    assert not {name for name in seen if name.endswith("/heartbeat")}
    assert not {name for name in names_of("dashboard", "publish") if name.endswith(("cmd_vel", "cmd_vel_in"))}
    calls = {name.rpartition("/")[2] for name in names_of("dashboard", "request")}
    assert {"set_parameters", "set_color", "set_weights", "load_model", "step", "add_place"} <= calls
    assert not {name for name in calls if name.startswith(("save_", "change_state", "learn", "invoke"))}


def test_a_node_may_subscribe_to_a_topic_under_the_name_of_another_launch_file() -> None:
    node = Interfaces("mine", "/robot", {}, {"/robot/input": "std_msgs/msg/Float32"}, {}, {})
    both = node.also_subscribe("input", "source/output")
    assert both.subscribes == dict.fromkeys(["/robot/input", "/robot/source/output"], "std_msgs/msg/Float32")


def test_a_second_name_is_refused_for_a_topic_to_which_a_node_does_not_subscribe() -> None:
    with pytest.raises(FatalError, match="mine does not subscribe to 'result'"):
        NODE.also_subscribe("result", "other")


def test_what_a_node_opens_on_demand_is_allowed_to_it_alone() -> None:
    kinds = frozenset({"std_srvs/srv/Trigger", "std_msgs/msg/Float32"})
    other = Interfaces("page", "/", {}, {"/seen": "std_msgs/msg/String"}, {}, {})
    found = {each.name: each for each in enclaves({"mine": NODE, "page": other}, {"page": kinds})}
    (page,) = found["page"].profiles
    assert set(page.request) == {"/robot/mine/wipe"}
    assert set(page.subscribe) == {"/robot/mine/result", "/seen"}
    for name in ("mine", "single_process"):
        assert not any(set(profile.request) for profile in found[name].profiles)


def test_a_learner_may_set_the_weights_of_its_head_and_only_the_operator_may_teach_it() -> None:
    assert names_of("learner", "request") == {
        f"/edgetpu/{name}" for name in ("load_model", "invoke", "set_weights")
    }
    teaching = {f"/learner/{name}" for name in ("learn", "forget", "save_classes", "load_classes")}
    assert teaching <= names_of("learner", "reply") & names_of("operator", "request")
    assert not teaching & names_of("client", "request")


@pytest.mark.parametrize("node", ["looming", "optical_flow", "visual_compass"])
def test_a_node_that_keeps_its_weights_may_not_set_any(node: str) -> None:
    assert names_of(node, "request") == {"/edgetpu/load_model", "/edgetpu/invoke"}


def test_only_the_operator_and_the_node_itself_see_what_is_provided() -> None:
    for node in NODES:
        for other in NODES:
            if other != node:
                assert not names_of(node, "reply") & names_of(other, "reply")


NODE = Interfaces(
    "mine",
    "/robot",
    {"/robot/mine/result": "std_msgs/msg/Float32"},
    {},
    {
        "/robot/mine/wipe": "std_srvs/srv/Trigger",
        "/robot/mine/get_parameters": "rcl_interfaces/srv/GetParameters",
    },
    {},
)


def test_a_service_of_unknown_type_is_for_the_operator_only() -> None:
    allowed = {enclave.name: set(enclave.profiles[0].request) for enclave in enclaves({"mine": NODE})}
    assert allowed == {
        "mine": set(),
        "single_process": set(),
        "operator": {"/robot/mine/wipe", "/robot/mine/get_parameters"},
        "client": {"/robot/mine/get_parameters"},
    }


def test_what_a_node_does_not_open_is_left_out() -> None:
    profile = ElementTree.fromstring(policy_file(enclaves({"mine": NODE})[:1]).encode()).find(".//profile")
    assert profile is not None
    assert profile.attrib == {"ns": "/robot", "node": "mine"}
    assert [(group.tag, dict(group.attrib)) for group in profile] == [
        ("topics", {"publish": "ALLOW"}),
        ("services", {"reply": "ALLOW"}),
    ]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgetpu_driver.node_kit.installed_nodes.security_policies", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "text", ["cmd_vel_in:=twist_mux/cmd_vel", "nobody:cmd_vel_in:=cmd_vel", "policy:a:b"]
)
def test_another_name_is_refused_without_node_and_both_topics(text: str) -> None:
    done = run("--also", text)
    assert (done.returncode, done.stdout) == (2, "")
    expected = f"expected NODE:TOPIC:=OTHER of an installed node; got '{text}'"
    assert done.stderr.splitlines()[-1] == f"security_policies: error: argument --also: {expected}"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-r", "image=front"], "failed to initialize rcl"),
        (
            ["-p", "performance:=warp"],
            "parameter 'performance': expected one of low, medium, high, max; got 'warp'",
        ),
    ],
)
def test_bad_arguments_are_reported_in_one_line(arguments: list[str], reason: str) -> None:
    done = run("--ros-args", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    last_line = done.stderr.splitlines()[-1]  # rcl may have logged one before
    assert last_line.startswith(f"security_policies: {reason}")
    assert "Traceback" not in done.stderr
