"""Names of the page's elements, for screen readers and for tests."""

from __future__ import annotations

from typing import TypeVar

from nicegui.element import Element

_Element = TypeVar("_Element", bound=Element)


def name_element(element: _Element, data_id: str, label: str = "") -> _Element:
    """Set `data-id`, and a label for screen readers, to text of any origin; return the element.

    If a name, such as that of a model, were in the text that `props` reads, it could add properties, such as
    innerHTML.
    """
    element.props["data-id"] = data_id
    if label:
        element.props["aria-label"] = label
    return element
