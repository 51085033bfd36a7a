"""Sets of classes that many models share, by name."""

from __future__ import annotations

from edgetpu_vision.labels.labels import Labels

_COCO = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant,
stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe,
backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball
bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine glass, cup, fork, knife,
spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake, chair,
couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard, cell phone,
microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear, hair drier,
toothbrush
"""
_COCO_GAPS = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91)
"""Numbers, counted from 1, of the classes without pictures in COCO's list of 91 categories."""
_PASCAL_VOC = """
background, aeroplane, bicycle, bird, boat, bottle, bus, car, cat, chair, cow, diningtable, dog,
horse, motorbike, person, pottedplant, sheep, sofa, train, tvmonitor
"""


def coco(count: int | None) -> Labels:
    """The 80 classes of COCO: without gaps for a model of 80 classes, otherwise by COCO's number less 1."""
    names = _names(_COCO)
    if count == len(names):
        return Labels(dict(enumerate(names)), "COCO", numbered=True)
    numbers = [number - 1 for number in range(1, 92) if number not in _COCO_GAPS]
    return Labels(dict(zip(numbers, names, strict=True)), "COCO", numbered=True)


def pascal_voc(_count: int | None) -> Labels:
    """The background and the 20 classes of PASCAL VOC."""
    return Labels(dict(enumerate(_names(_PASCAL_VOC))), "PASCAL VOC")


KNOWN_SETS = {"coco": coco, "pascal_voc": pascal_voc}
"""By name, functions that return the labels for a model's number of classes, which is None if unknown."""


def _names(text: str) -> list[str]:
    return " ".join(text.split()).split(", ")
