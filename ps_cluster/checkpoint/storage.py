"""Files of a checkpoint wherever they lie: in a local folder, or behind an address that TensorFlow's plug-ins know."""

from __future__ import annotations

import os
import posixpath

import tensorflow as tf

from ps_cluster.errors import UserError

READ_ERRORS = (OSError, tf.errors.OpError)


def is_remote(path: str) -> bool:
    """Whether `path` is an address such as s3://bucket/folder."""
    return "://" in path


def load_file_systems(*paths: str) -> None:
    """Lets TensorFlow reach those of `paths` that are not local; nothing when all are.

    Raises:
      UserError: there is no plug-in for one of them.
    """
    remote = [path for path in paths if is_remote(path)]
    if not remote:
        return
    from ps_cluster.quiet import held_output

    # The one name of an endpoint that samples are read from too; the plug-in has names of its own.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        os.environ.setdefault("S3_ENDPOINT", endpoint)
        if endpoint.startswith("http://"):
            os.environ.setdefault("S3_USE_HTTPS", "0")
            os.environ.setdefault("S3_VERIFY_SSL", "0")
    with held_output():
        import tensorflow_io  # noqa: F401  registers its file systems
    for path in remote:
        scheme = path.partition("://")[0]
        if scheme not in tf.io.gfile.get_registered_schemes():
            raise UserError(f"{path}: expected a local path or an address that TensorFlow reads, found {scheme}://")


def join(folder: str, *names: str) -> str:
    """Path below a folder."""
    return posixpath.join(folder, *names) if is_remote(folder) else os.path.join(folder, *names)


def names_in(folder: str) -> list[str]:
    """What lies in a folder, sorted; nothing when there is no such folder."""
    try:
        return sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    except tf.errors.NotFoundError:
        return []


def read(path: str) -> bytes:
    """All bytes of a file.

    Raises:
      tf.errors.OpError: it cannot be read.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


def write(path: str, content: bytes) -> None:
    """Writes a file that appears whole or not at all; locally it is on the disk afterwards.

    Raises:
      OSError, tf.errors.OpError: it cannot be written.
    """
    if is_remote(path):
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(content)
        return
    beside = f"{path}.part"
    with open(beside, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(folder: str) -> None:
    """Makes a folder and those above it; object stores need none."""
    tf.io.gfile.makedirs(folder)


def remove_folder(folder: str, first: str) -> None:
    """Removes a folder with all in it, its file `first` before anything else; nothing when it is not there."""
    try:
        if tf.io.gfile.exists(join(folder, first)):
            tf.io.gfile.remove(join(folder, first))
        tf.io.gfile.rmtree(folder)
    except tf.errors.NotFoundError:
        pass
