"""Parameters declared from a table that states default, range and description of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from edgetpu_driver.node_kit.fatal_error import FatalError
from edgetpu_driver.node_kit.printable_text import one_line


@dataclass(frozen=True)
class Setting:
    """One parameter of a node: `ros2 param describe` and config/edgetpu.yaml are made from it.

    The description names the unit and what an empty or zero value means; the default and the range are added
    to it. In a list of strings empty strings are ignored, and `[]` or `[""]` stands for the default.
    """

    name: str
    default: bool | int | float | str | list[str] | list[int]
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    read_only: bool = True
    check: Callable[[Any], str | None] | None = None
    """Returns the reason why a value is refused, or None."""
    any_type: bool = False
    """Whether values of other types than the default's are accepted; `check` sees them."""
    default_text: str = ""
    """The default in words, where its value depends on the environment."""

    def refusal(self, value: Any) -> str | None:
        """Return the reason why a value of the right type is refused, or None."""
        if self.choices and value not in self.choices:
            return f"expected {self._one_of_choices()}; got '{value}'"
        return self.check(value) if self.check else None

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor that `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(
            name=self.name,
            description=f"{self.description} Default: {self._default_in_words()}.",
            read_only=self.read_only,
            dynamic_typing=self.any_type,
        )
        if self.choices:
            descriptor.additional_constraints = self._one_of_choices()
        if self.minimum is None and self.maximum is None:
            return descriptor
        if isinstance(self.default, float):
            low = -math.inf if self.minimum is None else float(self.minimum)
            high = math.inf if self.maximum is None else float(self.maximum)
            descriptor.floating_point_range = [FloatingPointRange(from_value=low, to_value=high)]
        else:
            least = -(2**63) if self.minimum is None else int(self.minimum)
            most = 2**63 - 1 if self.maximum is None else int(self.maximum)
            descriptor.integer_range = [IntegerRange(from_value=least, to_value=most)]
        return descriptor

    def _default_in_words(self) -> str:
        if self.default_text:
            return self.default_text
        if self.default in ("", []):
            return "empty"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    def _one_of_choices(self) -> str:
        names = [choice or "'' (nothing)" for choice in self.choices]
        return f"one of {', '.join(names)}"


QOS_RELIABILITY = Setting(
    "qos_reliability",
    "best_effort",
    "Reliability of the subscription. best_effort is compatible with every publisher.",
    choices=("best_effort", "reliable"),
)
"""Reliability of the topics that a node of any package subscribes to."""


def merge_settings(*groups: Sequence[Setting]) -> tuple[Setting, ...]:
    """Join groups of parameters; of two with the same name the later one replaces the earlier one."""
    return tuple({setting.name: setting for group in groups for setting in group}.values())


def declare(
    node: Node,
    settings: Sequence[Setting],
    changed: Callable[[str, Any], None],
    refused: Callable[[str, Mapping[str, Any]], str | None],
) -> dict[str, Any]:
    """Declare the parameters and return their values by name; FatalError with the reason for a bad one.

    When one or several parameters that are not read-only are set, the settings check the new values first.
    Then `refused` is called with the name of each and the values that all parameters would have, and returns
    the reason why the node refuses that value, or None. If none is refused, the returned values change, and
    `changed` is called for each. If it raises, they are as before.
    """
    values = {setting.name: _declare(node, setting) for setting in settings}
    table = {setting.name: setting for setting in settings}

    def refusal(new: Mapping[str, Any]) -> str | None:
        together = {**values, **new}
        reasons = chain(
            ((name, table[name].refusal(value)) for name, value in new.items()),
            ((name, refused(name, together)) for name in new),
        )
        return next((f"{name}: {reason}" for name, reason in reasons if reason is not None), None)

    def on_set(parameters: list[Parameter]) -> SetParametersResult:
        own = [p for p in parameters if p.name in table]
        deleted = next((p.name for p in own if p.type_ is Parameter.Type.NOT_SET), None)
        new = {p.name: _clean(table[p.name], p.value) for p in own}
        # rclpy refuses this itself unless values may have any type.
        reason = refusal(new) if deleted is None else f"{deleted}: expected a value; it cannot be deleted"
        if reason is not None:
            return SetParametersResult(successful=False, reason=one_line(reason))
        before = {name: values[name] for name in new}
        values.update(new)
        try:
            for name, value in new.items():
                changed(name, value)
        except Exception:
            values.update(before)
            raise
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(on_set)
    return values


def _declare(node: Node, setting: Setting) -> Any:
    # rclpy cannot tell the type of an empty list.
    default = setting.default if setting.default != [] else [""]
    try:
        parameter = node.declare_parameter(setting.name, default, setting.descriptor())
    except ParameterException as error:
        hint = " (lists are written in brackets: '[a, b]')" if isinstance(default, list) else ""
        raise FatalError(f"{error}{hint}") from None
    except UnicodeEncodeError:
        raise FatalError(
            f"parameter '{setting.name}': expected a default in UTF-8 (check $ROS_HOME); got {default!r}"
        ) from None
    value = _clean(setting, parameter.value)
    reason = setting.refusal(value)
    if reason is not None:
        raise FatalError(f"parameter '{setting.name}': {reason}")
    return value


def _clean(setting: Setting, value: Any) -> Any:
    """Drop empty strings from lists; an empty list in a YAML file arrives as no value at all.

    A single value, which only a setting of any type accepts, becomes a list of one.
    """
    if isinstance(setting.default, list):
        items = [value] if isinstance(value, str | int | float) else value or ()
        return [item for item in items if item != ""] or list(setting.default)
    return value
