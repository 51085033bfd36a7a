"""Which cached parameters the chip's memory holds, and their upload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from edgetpu_driver.compiled_model import CompiledModel
from edgetpu_driver.darwinn.instructions.parameter_region import Region
from edgetpu_driver.errors import InputError
from edgetpu_driver.stick.dma_transfers import PreparedExecutable
from edgetpu_driver.usb.link import UsbLink

_versions = count()


@dataclass(frozen=True, eq=False)
class CachedParameters:
    """The cached parameters of a model, prepared for upload."""

    executable: PreparedExecutable | None
    """The program that uploads the parameters; None if the model has no cached parameters."""
    token: int
    """Parameter caching token: only models of the same token are resident together; 0: never resident."""
    region: Region
    """The rows of the chip's memory that they are written to; other models' parameters there are displaced.
    """
    content: tuple[str, int, int] | int
    """Equal for models that put the same bytes into the region."""
    size: int
    """Number of parameter bytes."""

    @classmethod
    def of(cls, model: CompiledModel) -> CachedParameters:
        """The parameters in a model's file; ModelUnsupportedError if their DMA hints are incomplete."""
        caching = model.caching
        # A stand-alone executable may use all of the memory, whatever token its file has.
        token = 0 if caching is None else model.parameter_caching_token
        return cls(
            executable=None if caching is None else PreparedExecutable(caching),
            token=token,
            region=model.parameter_region,
            content=(model.sha256, model.operator, token),
            size=0 if caching is None else len(caching.parameters),
        )

    def replaced(self, model: CompiledModel, parameters: bytes) -> CachedParameters:
        """The same region with other parameter bytes; InputError for another number of bytes."""
        if model.caching is None or len(parameters) != self.size:
            raise InputError(f"expected {self.size} cached parameter bytes, got {len(parameters)}")
        executable = PreparedExecutable(replace(model.caching, parameters=parameters))
        return replace(self, executable=executable, content=next(_versions))


class ParameterMemory:
    """The content of the chip's parameter memory, as far as this process has written it."""

    def __init__(self) -> None:
        self.uploads = 0
        """Number of uploads so far."""
        self._regions: dict[Region, CachedParameters] = {}
        """The resident parameters; no two regions overlap."""
        self._token = 0

    @property
    def size(self) -> int:
        """Bytes of all resident parameters."""
        return sum(parameters.size for parameters in self._regions.values())

    def holds(self, parameters: CachedParameters) -> bool:
        """Whether these bytes are resident, including through another copy of the model."""
        resident = self._regions.get(parameters.region)
        return resident is not None and resident.content == parameters.content

    def ensure(self, link: UsbLink, parameters: CachedParameters) -> bool:
        """Upload parameters unless they are resident; returns whether they were uploaded. Raises DeviceError.

        Parameters of another token, and those that are overwritten, are no longer resident.
        """
        if parameters.token == 0 or parameters.token != self._token:
            self._regions.clear()
            self._token = parameters.token
        if parameters.executable is None or self.holds(parameters):
            return False
        for region in [each for each in self._regions if each & parameters.region]:
            del self._regions[region]
        parameters.executable.run(link)
        self._regions[parameters.region] = parameters
        self.uploads += 1
        return True

    def evict(self, parameters: CachedParameters) -> None:
        """Treat the region of these parameters as empty."""
        self._regions.pop(parameters.region, None)

    def release(self, parameters: CachedParameters) -> None:
        """Treat the region as empty if this upload filled it, not one of equal bytes by another model."""
        if self._regions.get(parameters.region) is parameters:
            self.evict(parameters)

    def clear(self) -> None:
        """Treat the whole memory as empty."""
        self._regions.clear()
