"""The chip's memory of parameters, which keeps them until others overwrite them."""

from __future__ import annotations

from edgetpu_driver.darwinn.executable import ExecutableType
from edgetpu_driver.darwinn.instructions.parameter_region import Region
from edgetpu_driver.virtual.matrix_programs.upload import MatrixUpload
from edgetpu_driver.virtual.processor.tile_memory import TileMemory
from edgetpu_driver.virtual.program_library import Program


class ParameterMemory:
    """The parameters that programs have uploaded. Parameters of one caching token are resident together."""

    def __init__(self) -> None:
        self.tiles = TileMemory()
        """Parameters of matrices, for programs that are run from their bytes."""
        self._uploaded: dict[bytes, tuple[Region, bytes]] = {}
        """By the digest of the program that uploaded them: the rows of memory that they fill, and their
        bytes."""
        self._tokens: set[int] = set()
        """The caching tokens that all of them share."""

    def uploaded_by(self, program: bytes) -> bytes | None:
        """The parameters that the program with this digest has uploaded; None if they were overwritten."""
        uploaded = self._uploaded.get(program)
        return None if uploaded is None else uploaded[1]

    def store(self, upload: MatrixUpload, parameters: bytes) -> None:
        """Store the parameters uploaded by a program that is run from its bytes."""
        self._uploaded.clear()
        upload.store(parameters, self.tiles)

    def keep(self, program: Program, parameters: bytearray) -> None:
        """Take the parameters received for a program that is known by its transfers."""
        if program.type is ExecutableType.PARAMETER_CACHING:
            self._cache(program, bytes(parameters))
        elif program.stand_alone and parameters:
            self.clear()

    def clear(self) -> None:
        """Forget all parameters."""
        self._uploaded.clear()
        self.tiles.clear()

    def _cache(self, program: Program, parameters: bytes) -> None:
        common = self._tokens & program.tokens - {0}
        if not common:
            self.clear()
        self._tokens = common or set(program.tokens)
        for digest in [each for each, (region, _) in self._uploaded.items() if region & program.region]:
            del self._uploaded[digest]
        self._uploaded[program.digest] = program.region, parameters
        self.tiles.erase(program.region)
        if program.upload is not None:
            program.upload.store(parameters, self.tiles)
