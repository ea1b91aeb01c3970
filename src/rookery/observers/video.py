"""Frames to a film: .mp4 for watching, .gif for a page."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rookery.errors import RookeryError, UserError

Frame = NDArray[np.uint8]

SUFFIXES = (".mp4", ".gif")
_GIF_WIDTH = 400
_GIF_FPS = 25
_PALETTE_FRAMES = 16


def write_video(frames: Iterable[Frame], out: Path, fps: int) -> None:
    """Write (height, width, 3) frames to `out`, `fps` to the second, in the format of its suffix."""
    check_video_path(out)
    if fps < 1:
        raise UserError(f"a film needs at least 1 frame per second, not {fps}")
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise RookeryError(f"there is not a single frame to write to {out}")
    whole = (_rgb(frame, first.shape) for frame in itertools.chain([first], iterator))
    partial = out.with_name(f".{out.stem}.{os.getpid()}.partial{out.suffix.lower()}")
    try:
        if out.suffix.lower() == ".mp4":
            _write_mp4(whole, partial, fps)
        else:
            _write_gif(whole, partial, fps)
        partial.replace(out)
    except OSError as error:
        raise RookeryError(f"cannot write {out}: {_reason(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def check_video_path(out: Path) -> None:
    """Refuse a path that no film can be written to, before anything is rendered for it."""
    if out.suffix.lower() not in SUFFIXES:
        given = f"'{out.suffix}'" if out.suffix else "no suffix"
        raise UserError(f"cannot write a film to {out}: its name must end in .mp4 or .gif, and it has {given}")
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: the folder {out.parent} does not exist")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        problem = "it is a folder" if out.is_dir() else f"the folder {out.parent} is not writable"
        raise UserError(f"cannot write {out}: {problem}")


def _reason(error: OSError) -> str:
    """The first line of what the system or ffmpeg said."""
    return (error.strerror or str(error)).strip().splitlines()[0] if str(error).strip() else "unknown reason"


def _rgb(frame: Frame, shape: tuple[int, ...]) -> Frame:
    """A contiguous (height, width, 3) frame from a grey, RGB or RGBA one."""
    if frame.dtype != np.uint8 or frame.shape != shape:
        raise ValueError(f"frames must be uint8 of shape {shape}, this one is {frame.dtype} of {frame.shape}")
    if frame.ndim == 2:
        frame = frame[:, :, None]
    if frame.ndim != 3 or frame.shape[2] not in (1, 3, 4):
        raise ValueError(f"frames must be (height, width, 3), this one is {shape}")
    if frame.shape[2] == 1:
        frame = np.repeat(frame, 3, axis=2)
    return np.ascontiguousarray(frame[:, :, :3])


def _write_mp4(frames: Iterator[Frame], path: Path, fps: int) -> None:
    """H.264 in yuv420p, which every player and browser shows; it needs even sizes."""
    first = _padded_to_even(next(frames))
    # imageio's own writer ignores ffmpeg's exit code: a film cut short by a full disk would pass for whole.
    command = [
        *(_ffmpeg(), "-y", "-v", "error"),
        *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{first.shape[1]}x{first.shape[0]}", "-r", str(fps)),
        *("-i", "-", "-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18"),
        *("-movflags", "+faststart", str(path)),
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                pipe.write(first.data)
                for frame in frames:
                    pipe.write(_padded_to_even(frame).data)
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        if code != 0:
            said.seek(0)
            raise OSError(said.read().decode(errors="replace").strip() or f"ffmpeg failed with code {code}")


def _ffmpeg() -> str:
    """The ffmpeg that comes with imageio, or the one on the path."""
    import imageio_ffmpeg

    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise RookeryError("An .mp4 film needs ffmpeg, and none is installed. Write a .gif instead") from error


def _padded_to_even(frame: Frame) -> Frame:
    """Repeat the last row or column of an odd size; scaling would blur every pixel."""
    height, width = frame.shape[:2]
    if height % 2 == 0 and width % 2 == 0:
        return frame
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def _write_gif(frames: Iterator[Frame], path: Path, fps: int) -> None:
    """An endless film with one palette for all frames, so that still parts stay still and cost nothing."""
    every = max(1, round(fps / _GIF_FPS))
    # A long film would not fit in memory; compressed, its mostly flat frames do.
    packed: list[bytes] = []
    shape = (0, 0, 3)
    for frame in itertools.islice(frames, 0, None, every):
        small = _downscaled(frame)
        shape = small.shape
        packed.append(zlib.compress(small.tobytes(), 1))

    def image(data: bytes) -> Image.Image:
        return Image.fromarray(np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape))

    stride = max(1, len(packed) // _PALETTE_FRAMES)
    palette = _palette([np.asarray(image(data)) for data in packed[::stride]])
    images = (image(data).quantize(palette=palette, dither=Image.Dither.NONE) for data in packed)
    first = next(images)
    first.save(
        path,
        format="GIF",
        save_all=True,
        append_images=images,
        duration=_durations(len(packed), fps / every),
        loop=0,
        optimize=True,
        disposal=1,
    )


def _downscaled(frame: Frame) -> Frame:
    """At most 400 pixels wide."""
    height, width = frame.shape[:2]
    if width <= _GIF_WIDTH:
        return frame
    size = (_GIF_WIDTH, max(1, round(height * _GIF_WIDTH / width)))
    return np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS))


def _palette(samples: list[Frame]) -> Image.Image:
    """The 256 colours that fit all samples best."""
    mosaic = np.concatenate([sample.reshape(-1, 3) for sample in samples])
    colours, counts = np.unique(mosaic, axis=0, return_counts=True)
    if len(colours) > 256:
        # The square root keeps small things, such as the agent itself, from losing their colour to the sky.
        weights = np.maximum(1, np.sqrt(counts)).astype(np.int64)
        mosaic = np.repeat(colours, weights, axis=0)
    else:
        mosaic = colours
    return Image.fromarray(mosaic[None]).quantize(256, method=Image.Quantize.MEDIANCUT)


def _durations(count: int, fps: float) -> list[int]:
    """Milliseconds of each frame: GIF counts in hundredths of a second, and the rounding must not add up."""
    edges = [round(index * 100 / fps) for index in range(count + 1)]
    return [10 * (after - before) for before, after in itertools.pairwise(edges)]
