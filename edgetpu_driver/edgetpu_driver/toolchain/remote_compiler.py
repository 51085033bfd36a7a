"""Runs edgetpu_compiler on another computer over ssh, as it exists for x86-64 only and robots have ARM.

One command there receives the graphs on its standard input, compiles them in a separate directory, sends
the results back and removes the directory. Connections are shared, so that a password is asked for once.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetpu_driver.errors import CompilerError, InputError
from edgetpu_driver.toolchain.edgetpu_compiler import PROGRAM, last_lines

_HOST = re.compile(r"[\w.:][\w.:@%-]*")
_SSH_DIRECTORY = Path("~/.ssh")
_SHARED = ("ControlMaster=auto", f"ControlPath={_SSH_DIRECTORY}/edgetpu-%C", "ControlPersist=15")
_SSH_FAILED, _NOT_FOUND, _TIMED_OUT = 255, 127, 124
"""Exit statuses of ssh itself, of a shell without that command, and of timeout(1)."""
_SECONDS_TO_CONNECT = 60.0
"""Seconds that ssh may take in addition to the compiler."""
_OUTPUT, _STATUS = ".output", ".status"

_SCRIPT = """\
set -e
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT HUP INT TERM
cd "$d"
mkdir in out
tar xf - -C in
status=0
if command -v {program} >/dev/null
then timeout {seconds} {program} -s -o out {graphs} >out/{output} 2>&1 || status=$?
else status={not_found}
fi
echo $status >out/{status}
tar cf - -C out .
"""


@dataclass(frozen=True)
class RemoteCompiler:
    """edgetpu_compiler on a computer that ssh reaches; InputError for an invalid destination."""

    host: str
    """Destination for ssh: host, user@host, or a name in ~/.ssh/config."""
    program: str = PROGRAM
    """Name or path of the compiler there."""

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host):
            raise InputError(f"expected a destination for ssh, such as user@host; got '{self.host}'")

    def __str__(self) -> str:
        return f"{self.program} on {self.host}"

    def __call__(self, graphs: Sequence[Path], directory: Path, timeout: float) -> str:
        """Compile graphs together; results go to an existing directory, the compiler's output is returned.

        timeout: seconds. Raises CompilerError if the computer cannot be reached, has no compiler, or the
        compiler fails or takes longer.
        """
        script = _SCRIPT.format(
            program=shlex.quote(self.program),
            seconds=max(1, round(timeout)),
            graphs=" ".join(shlex.quote(f"in/{graph.name}") for graph in graphs),
            output=_OUTPUT,
            status=_STATUS,
            not_found=_NOT_FOUND,
        )
        return self._unpacked(self._connected(script, _packed(graphs), timeout), directory, timeout)

    def _connected(self, script: str, sent: bytes, timeout: float) -> bytes:
        _SSH_DIRECTORY.expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)  # ssh fails without it
        options = [part for option in _SHARED for part in ("-o", option)]
        try:
            # In this session, so that ssh can ask for a password on its terminal.
            result = subprocess.run(
                ["ssh", *options, self.host, f"sh -c {shlex.quote(script)}"],
                input=sent,
                capture_output=True,
                timeout=timeout + _SECONDS_TO_CONNECT,
                check=False,
            )
        except FileNotFoundError:
            raise CompilerError("there is no ssh here: sudo apt install openssh-client") from None
        except subprocess.TimeoutExpired:
            raise CompilerError(f"{self.host} did not answer within {timeout:g} s") from None
        if result.returncode:
            details = last_lines(result.stderr.decode(errors="replace"))
            kind = "cannot be reached" if result.returncode == _SSH_FAILED else "failed"
            raise CompilerError(f"{self.host} {kind}: {details}")
        return result.stdout

    def _unpacked(self, received: bytes, directory: Path, timeout: float) -> str:
        try:
            files = _files(received)
            status, output = int(files.pop(_STATUS)), files.pop(_OUTPUT, b"").decode(errors="replace")
        except (tarfile.TarError, KeyError, ValueError) as error:
            raise CompilerError(f"{self.host} sent something other than compiled models: {error}") from None
        if status == _NOT_FOUND:
            raise CompilerError(
                f"there is no {self.program} on {self.host}: install it there "
                "(https://coral.ai/docs/edgetpu/compiler/), or name it with --compiler"
            )
        if status == _TIMED_OUT:
            raise CompilerError(f"{self} did not finish within {timeout:g} s and was stopped")
        if status:
            raise CompilerError(f"{self} failed: {last_lines(output)}")
        for name, data in files.items():
            (directory / name).write_bytes(data)
        return output


def _packed(graphs: Sequence[Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for graph in graphs:
            archive.add(graph.resolve(), graph.name)
    return packed.getvalue()


def _files(archive: bytes) -> dict[str, bytes]:
    """The regular files at the top level of an archive; all other entries are ignored."""
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        for member in opened:
            path, content = Path(member.name), opened.extractfile(member) if member.isfile() else None
            if content is not None and path.parent == Path():
                files[path.name] = content.read()
    return files
