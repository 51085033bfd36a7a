"""The fuzzed parsers with their valid inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

import cv2
import numpy as np

from edgetpu_driver.compiled_model import CompiledModel, Parameters
from edgetpu_driver.darwinn.instructions import operation_assembly
from edgetpu_driver.darwinn.instructions.field_statistics import field_statistics
from edgetpu_driver.darwinn.instructions.instruction_word import disassemble
from edgetpu_driver.darwinn.instructions.operations import join, split
from edgetpu_driver.darwinn.instructions.requested_transfers import transfers
from edgetpu_driver.darwinn.instructions.word_assembly import from_text, to_text
from edgetpu_driver.darwinn.package_reader import parse_package
from edgetpu_driver.engines.whole_model.pipeline_segments import plan_model
from edgetpu_driver.errors import ArchiveError, ModelFormatError, ModelUnsupportedError
from edgetpu_driver.images.compressed_images import decode_compressed
from edgetpu_driver.images.encodings import ImageError
from edgetpu_driver.tflite.flexbuffer import decode
from edgetpu_driver.tflite.graph_builder import GraphBuilder
from edgetpu_driver.tflite.model_reader import parse_model
from edgetpu_driver.toolchain.dense_compiler import compile_dense
from edgetpu_driver.weights.compiler_layout import decode_parameters, encode_parameters
from edgetpu_matrix.place_recognition.place_database import PlaceDatabase
from edgetpu_vision import LabelsError, describe
from edgetpu_vision.labels.label_text import parse_labels
from edgetpu_vision.learning.taught_examples import TaughtExamples
from fuzz import corpus
from fuzz.corpus import Sample
from fuzz.isolated_runs import IsolatedRuns
from fuzz.raw_programs import program_samples, run_program
from testdata.graphs.compiled_graphs import compiled_graph
from testdata.graphs.metadata_files import model_with_metadata, with_files

_WORDS = 64  # an instruction of 16 bytes becomes an object of twenty numbers


@dataclass(frozen=True)
class Target:
    """A parser, which must accept any bytes and may raise only its `refusals`."""

    name: str
    samples: Sequence[Sample]
    parse: Callable[[bytes], object]
    share: float
    """Share of all inputs."""
    memory_ratio: int = 16
    """Limit of memory, as a multiple of the input's size."""
    seconds: float = 2.0
    """Time limit per input, s, for a busy machine with memory tracing; a millisecond is usual."""
    refusals: tuple[type[Exception], ...] = (ModelFormatError, ModelUnsupportedError)
    """Exceptions that the parser may raise."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of inputs by outcome, if there are more than two outcomes."""


def targets() -> list[Target]:
    """All parsers; reads the corpus."""
    models = corpus.models()
    graph = next(sample for sample in models if sample.name == "dense").data
    encoded = bytes(encode_parameters(parse_model(graph)).cached)
    compiled = [sample for sample in models if sample.name.endswith("_edgetpu")]
    bitstreams = corpus.bitstreams(compiled)
    return [
        Target("parse_model", models, parse_model, 0.2),
        Target("CompiledModel.parse", compiled, _compiled_model, 0.2),
        Target("plan_model", [*compiled, Sample("parts_edgetpu", compiled_graph(2))], plan_model, 0.1),
        Target("parse_package", corpus.packages(compiled), parse_package, 0.25),
        Target("flexbuffer.decode", corpus.options(compiled), decode, 0.1),
        Target("disassemble", bitstreams, _instructions, 0.05, _WORDS),
        Target("from_text", _texts(bitstreams), _from_text, 0.05, _WORDS),
        Target("split", bitstreams, _operations, 0.05, _WORDS),
        Target("raw programs", program_samples(), run_program, 0.05, 256),
        Target("operations from text", _operation_texts(bitstreams), _operations_from_text, 0.05, _WORDS),
        Target("compile_dense", [dense_sample()], compile_dense, 0.05),
        Target("decode_parameters", [Sample("dense", encoded)], _parameters(graph), 0.05),
        isolated_graphs(models),
        Target("place files", [places_sample()], _places, 0.05, refusals=(ArchiveError,)),
        Target("files of taught classes", [examples_sample()], _examples, 0.05, refusals=(ArchiveError,)),
        Target("compressed images", image_samples(), decode_compressed, 0.05, 64, refusals=(ImageError,)),
        Target("describe", [*compiled, described_sample()], _describe, 0.05, 32),
        Target("labels", label_samples(), _labels, 0.05, 64, refusals=(LabelsError,)),
        Target("encode_parameters", [each for each in models if len(each.data) < 20_000], _layout, 0.05),
    ]


def described_sample() -> Sample:
    """A model with metadata, labels and the description of a YOLO exporter."""
    model = model_with_metadata(
        mean=[127.5], std=[127.5], output_names=["location"], labels={"l": b"cat\ndog"}
    )
    return Sample("described", with_files(model, {"meta.txt": b"{'names': {0: 'cat', 1: 'dog'}}"}))


def label_samples() -> list[Sample]:
    """Labels in each format."""
    texts = {
        "lines": b"cat\ndog\nhot dog\n",
        "numbers": b"0 cat\n1 dog\n17 hot dog\n",
        "list": b'["cat", "dog"]',
        "object": b'{"0": "cat", "17": "dog"}',
        "map": b'item {\n name: "cat"\n id: 1\n}\nitem { id: 2 display_name: "dog" }\n',
    }
    return [Sample(name, text) for name, text in texts.items()]


def _describe(data: bytes) -> object:
    return describe([data])


def _labels(data: bytes) -> object:
    return parse_labels(data, "labels.txt")


def isolated_graphs(models: Sequence[Sample]) -> Target:
    """The checks of graphs, followed by LiteRT in a separate process for graphs that pass."""
    graphs = [each for each in models if not each.name.endswith("_edgetpu") and len(each.data) < 100_000]
    outcomes: Counter[str] = Counter()
    return Target(
        "isolated graphs", graphs, IsolatedRuns(outcomes).run, 0.05, seconds=20.0, outcomes=outcomes
    )


def places_sample() -> Sample:
    """A file of two places."""
    database = PlaceDatabase()
    database.add("office", [1.0, 0.0])
    database.add("küche", [0.0, 1.0])
    return _archive("places", database.save)


def _places(data: bytes) -> None:
    with _file_of(data) as path:
        PlaceDatabase.load(path, 4096)


def examples_sample() -> Sample:
    """A file of two examples."""
    examples = TaughtExamples()
    examples.add("mug", [[1.0, 0.0]])
    examples.add("tür", [[0.0, 1.0]])
    return _archive("classes", examples.save)


def _examples(data: bytes) -> None:
    with _file_of(data) as path:
        TaughtExamples.load(path)


def _archive(name: str, save: Callable[[str], object]) -> Sample:
    """The content of a file that `save` writes to a path."""
    with NamedTemporaryFile(suffix=".npz") as file:
        save(file.name)
        return Sample(name, Path(file.name).read_bytes())


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """The path of a file with this content."""
    with NamedTemporaryFile(suffix=".npz") as file:
        file.write(data)
        file.flush()
        yield file.name


def image_samples() -> list[Sample]:
    """A small picture in every format."""
    picture = np.arange(16 * 12 * 3, dtype=np.uint8).reshape(12, 16, 3)
    formats = (".png", ".jpg", ".webp", ".tiff", ".bmp")
    return [Sample(each, cv2.imencode(each, picture)[1].tobytes()) for each in formats]


def _compiled_model(data: bytes) -> None:
    CompiledModel.parse(data).check_runnable()


def _texts(bitstreams: Sequence[Sample]) -> list[Sample]:
    return [Sample(each.name, to_text(disassemble(each.data)).encode()) for each in _shortest(bitstreams)]


def _shortest(samples: Sequence[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda each: len(each.data))[:4]


def _instructions(data: bytes) -> None:
    words = disassemble(data)
    field_statistics([data])
    to_text(words)
    transfers(words)


def _from_text(data: bytes) -> None:
    from_text(data.decode("latin-1"))


def dense_sample() -> Sample:
    """A small matrix with a bias, for which a program can be written."""
    graph = GraphBuilder("dense")
    x = graph.input("x", (1, 8), np.uint8, scale=0.1, zero_point=128)
    inner = graph.quantize(x, np.int8, scale=0.1, zero_point=0)
    weights, bias = np.arange(32).reshape(4, 8), np.full(4, 1000)
    y = graph.fully_connected(inner, weights, np.full(4, 0.01), bias=bias, scale=0.1, zero_point=0)
    graph.output(graph.quantize(y, np.uint8, scale=0.1, zero_point=128))
    return Sample("matrix", graph.build())


def _operation_texts(bitstreams: Sequence[Sample]) -> list[Sample]:
    return [
        Sample(each.name, operation_assembly.to_text(split([each.data])[0].operations).encode())
        for each in _shortest(bitstreams)
    ]


def _operations(data: bytes) -> None:
    (chunk,) = split([data])
    assert join(chunk.operations) + chunk.rest == data
    operation_assembly.to_text(chunk.operations)


def _operations_from_text(data: bytes) -> None:
    operation_assembly.from_text(data.decode("latin-1"))


def _parameters(graph: bytes) -> Callable[[bytes], object]:
    """A parser of the parameter bytes of an unchanged graph."""
    model = parse_model(graph)

    def parse(data: bytes) -> object:
        return decode_parameters(model, Parameters(data, b""))

    return parse


def _layout(data: bytes) -> None:
    encode_parameters(parse_model(data))
