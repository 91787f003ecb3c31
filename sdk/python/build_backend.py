"""Builds the wheel: pip install needs nothing but pip and this file (PEP 517).

A wheel is a zip of the package's files, of its metadata, and of a list of all of them with their hashes.
"""

import base64
import hashlib
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "tierq"


def _read(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def _project():
    text = _read("pyproject.toml").decode()
    names = ("version", "description", "requires-python")
    return {k: re.search(r'^%s = "(.*)"$' % k, text, re.M).group(1) for k in names}


def _stem():
    return "%s-%s" % (PACKAGE, _project()["version"])


def _metadata():
    p = _project()
    head = [
        "Metadata-Version: 2.1", "Name: " + PACKAGE, "Version: " + p["version"], "Summary: " + p["description"],
        "Requires-Python: " + p["requires-python"], "License: MIT", "Description-Content-Type: text/markdown",
    ]
    return "\n".join(head).encode() + b"\n\n" + _read("README.md")


def _files():
    folder = os.path.join(HERE, PACKAGE)
    return [PACKAGE + "/" + n for n in sorted(os.listdir(folder)) if n.endswith((".py", ".typed"))]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder, and returns its name."""
    info = _stem() + ".dist-info"
    wheel = b"Wheel-Version: 1.0\nGenerator: tierq\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    parts = [(name, _read(name)) for name in _files()]
    parts += [(info + "/METADATA", _metadata()), (info + "/WHEEL", wheel), (info + "/LICENSE", _read("LICENSE"))]
    record = ""
    for name, data in parts:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    record += info + "/RECORD,,\n"
    name = _stem() + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as z:
        for part, data in parts + [(info + "/RECORD", record.encode())]:
            z.writestr(zipfile.ZipInfo(part), data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Writes the archive of the sources into a folder, and returns its name."""
    name = _stem() + ".tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as t:
        for part in ["pyproject.toml", "build_backend.py", "README.md", "LICENSE"] + _files():
            t.add(os.path.join(HERE, part), _stem() + "/" + part)
    return name
