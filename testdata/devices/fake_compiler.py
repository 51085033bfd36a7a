"""A program that behaves like edgetpu_compiler 16, and a call of the command that runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetpu_driver.cli.main import main

# Has options, text and files of the real compiler, but copies models from the folder `compiled` beside it.
FAKE = """#!{python}
import pathlib, subprocess, sys, time

here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
assert arguments[:2] == ["-s", "-o"], arguments
out, models = pathlib.Path(arguments[2]), [pathlib.Path(each) for each in arguments[3:]]
print("Edge TPU Compiler version 16.0.384591198")
print("Started a compilation timeout timer of 180 seconds.\\n")
sys.stdout.flush()
{mishap}
print("Model%s compiled successfully in 63 ms.\\n" % ("s" if len(models) > 1 else ""))
for model in models:
    table = "Operator                       Count      Status\\n\\n" + {rows!r}
    log = out / (model.stem + "_edgetpu.log")
    result = out / (model.stem + "_edgetpu.tflite")
    result.write_bytes((here / "compiled" / result.name).read_bytes())
    head = "Edge TPU Compiler version 16.0.384591198\\nInput: %s\\nOutput: %s\\n\\n" % (model, result)
    log.write_text(head + table)
    print("Input model: %s\\nInput size: 67.83KiB" % model)
    print("Output model: %s\\nOutput size: 100.63KiB" % result)
    print("On-chip memory used for caching model parameters: 66.00KiB")
    print("On-chip memory remaining for caching model parameters: 7.67MiB")
    print("Off-chip memory used for streaming uncached model parameters: 0.00B")
    print("Number of Edge TPU subgraphs: 1\\nTotal number of operations: 3\\nOperation log: %s\\n" % log)
    print(table)
print("Compilation child process completed within timeout period.\\nCompilation succeeded! ")
"""
MAPPED = "FULLY_CONNECTED                1          Mapped to Edge TPU\n"
MAPPED += "QUANTIZE                       2          Mapped to Edge TPU\n"
LIMITED = "Operation is otherwise supported, but not mapped due to some unspecified limitation"
PARTLY = "FULLY_CONNECTED                1          Mapped to Edge TPU\n"
PARTLY += f"QUANTIZE                       1          {LIMITED}\n"
PARTLY += "QUANTIZE                       1          Mapped to Edge TPU\n"
UNMAPPED = "FULLY_CONNECTED                1          Operation version not supported\n"

MakeCompiler = Callable[..., Path]


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Run `edgetpu models compile`; return its exit status and its JSON."""
    code = main(["models", "compile", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)
