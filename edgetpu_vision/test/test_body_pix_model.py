"""BodyPix with a file of that form: maps from convolutions, poses and masks from PosenetDecoderOp."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetpu_driver import Model
from edgetpu_driver.errors import DependencyMissingError
from edgetpu_vision import BodyPix
from testdata.graphs.body_pix_graph import HEIGHT, MOST, WIDTH, body_pix_file


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = Path(tmp_path_factory.mktemp("body_pix")) / "body_pix.tflite"
    path.write_bytes(body_pix_file())
    try:
        return Model.load(path)
    except DependencyMissingError as error:
        pytest.skip(str(error))


def test_the_whole_model_has_the_outputs_of_its_decoder_and_its_maps(model: Model) -> None:
    assert [spec.shape for spec in model.outputs] == [
        (1, MOST, 17, 2),
        (1, MOST, 17),
        (1, MOST),
        (1,),
        (1, MOST, 20, 31),
        (1, 20, 31, 1),
        (1, 20, 31, 24),
    ]


def test_people_and_parts_come_from_the_whole_model(model: Model) -> None:
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[:, :240] = 255
    result = BodyPix(model).update(image, 7.0)
    assert result.poses == ()
    assert result.people[:, :224].all()
    assert not result.people[:, 241:].any()
    np.testing.assert_array_equal(result.parts, np.where(result.people, 7, 0))
    assert not result.instances.any()
