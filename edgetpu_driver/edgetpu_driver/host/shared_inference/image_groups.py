"""Finds clients that request inferences on the same images, by the inputs of their requests."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from edgetpu_driver.host.models.hosted_model import HostedModel
from edgetpu_driver.host.shared_inference.joint_model import JointModel
from edgetpu_driver.tflite.tensor import TensorSpec

WINDOW = 1.0
"""Seconds for which an image is remembered. Chosen: longer than nodes lag behind each other."""

KEPT = 8
"""Images remembered for each input; nodes in separate processes may lag by a few."""

JOIN = 4
"""Number of images that two groups must have in common before they are merged: images of one colour may be
equal by chance."""

LEAVE = 8
"""Successive images that a client shares with no other of its group before it leaves the group.

Uncritical: computing a head that is not needed takes about a sixth of the time of a separate inference.
"""

SETTLE = 4
"""Images without a change of a group before a graph is made for it, since nodes start one by one."""

FORGET = 30.0
"""Seconds without a request after which a group is dissolved: longer than a node takes to restart."""


@dataclass(eq=False)
class Asker:
    """A client that requests inferences of one model."""

    client: str
    model: HostedModel
    group: ImageGroup
    alone: int = 0
    """Successive images that it has not shared with any other member of its group."""


@dataclass(eq=False)
class ImageGroup:
    """Askers that receive the same images."""

    number: int
    """Number of the group, from 0."""
    members: list[Asker] = field(default_factory=list)
    joint: JointModel | None = None
    """Object that runs their models together; set by the user of the groups."""
    settled: int = 0
    """Number of images since its members last changed."""
    seen: int = 0
    """Number of images on which any of its members has asked."""
    last: float = 0.0
    """Steady time of the last of these images, s."""
    candidate: ImageGroup | None = None
    """The group that it has images in common with, and may be merged with."""
    met: int = 0
    """Number of images in common with that group."""
    met_at: int = 0
    """Value of `seen` of that group at the last image in common."""

    @property
    def models(self) -> tuple[HostedModel, ...]:
        """The models that its members ask for, without duplicates."""
        return tuple(dict.fromkeys(member.model for member in self.members if not member.model.unloaded))


@dataclass(eq=False)
class ImageInUse:
    """An image on which inferences were requested."""

    data: bytes
    arrived: float
    askers: list[Asker] = field(default_factory=list)
    runs: list[Any] = field(default_factory=list)
    """The inferences on it; set by the user of the groups."""


class ImageGroups:
    """Groups of askers. Not thread-safe.

    Two askers whose inputs were the same several times in succession are in one group. An asker that no
    longer shares images leaves its group: its node has ended, skips most images, or has changed its region.
    """

    def __init__(
        self, changed: Callable[[ImageGroup], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """changed: called with groups whose members have not changed for some images, or that have ended."""
        self._changed = changed
        self._clock = clock
        self._images: dict[TensorSpec, deque[ImageInUse]] = {}
        self._askers: dict[tuple[str, HostedModel], Asker] = {}
        self._numbers = count()
        self._next_purge = 0.0

    def ask(self, client: str, model: HostedModel, data: bytes) -> tuple[Asker, ImageInUse]:
        """Note that a client requests an inference of a model, whose only input has this content.

        A client that repeats the same request wants another inference: it gets its own image.
        """
        now = self._clock()
        asker = self._asker(client, model)
        asker.group.last = now
        images = self._images.setdefault(model.inputs[0], deque())
        while len(images) >= KEPT:
            self._close(images.popleft())
        self._close_old(images, now)
        for image in images:
            if image.data == data and asker not in image.askers:
                break
        else:
            image = ImageInUse(data, now)
            images.append(image)
        image.askers.append(asker)
        self._purge(now)
        return asker, image

    @property
    def groups(self) -> list[ImageGroup]:
        """All groups, the oldest first."""
        return list(dict.fromkeys(asker.group for asker in self._askers.values()))

    def _asker(self, client: str, model: HostedModel) -> Asker:
        key = client, model
        asker = self._askers.get(key)
        if asker is None:
            group = ImageGroup(next(self._numbers))
            asker = self._askers[key] = Asker(client, model, group)
            group.members.append(asker)
        return asker

    def _close_old(self, images: deque[ImageInUse], now: float) -> None:
        while images and now - images[0].arrived > WINDOW:
            self._close(images.popleft())

    def _close(self, image: ImageInUse) -> None:
        """Adjust the groups to the clients that asked about an image, which takes no more requests."""
        askers = [each for each in image.askers if self._askers.get((each.client, each.model)) is each]
        groups = list(dict.fromkeys(asker.group for asker in askers))
        for group in groups:
            group.seen += 1
        for group in groups:
            for member in list(group.members):
                alone = len(askers) == 1 or member not in askers
                # An image with a single request so far may reach the other members later.
                if len(askers) > 1 or member in askers:
                    member.alone = member.alone + 1 if alone else 0
                if member.alone >= LEAVE and len(group.members) > 1:
                    self._leave(member)
        groups = [group for group in groups if group.members]
        if len(groups) > 1:
            self._meet(groups)
        elif groups and len(askers) > 1:
            self._settle(groups[0])

    def _meet(self, groups: list[ImageGroup]) -> None:
        """Let smaller groups join the largest once they have met it often enough."""
        largest = max(groups, key=lambda group: (len(group.members), -group.number))
        for group in groups:
            if group is largest:
                continue
            again = group.candidate is largest and largest.seen - group.met_at <= LEAVE
            group.candidate, group.met = largest, group.met + 1 if again else 1
            group.met_at = largest.seen
            if group.met >= JOIN:
                for member in group.members:
                    member.group = largest
                largest.members += group.members
                largest.settled = 0
                group.members = []
                self._changed(group)

    def _settle(self, group: ImageGroup) -> None:
        group.settled += 1
        if group.settled >= SETTLE:
            self._changed(group)

    def _leave(self, asker: Asker) -> None:
        """Take an asker out of its group; it gets another if it asks again."""
        group = asker.group
        group.members.remove(asker)
        group.settled = 0
        del self._askers[asker.client, asker.model]
        if len(group.models) < 2:
            self._changed(group)

    def _purge(self, now: float) -> None:
        if now < self._next_purge:
            return
        self._next_purge = now + 1.0
        for spec, images in list(self._images.items()):  # those of unloaded models, too
            self._close_old(images, now)
            if not images:
                del self._images[spec]
        for group in self.groups:
            if now - group.last > FORGET or not group.models:
                for member in group.members:
                    del self._askers[member.client, member.model]
                group.members = []
                self._changed(group)
