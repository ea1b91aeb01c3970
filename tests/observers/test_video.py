"""Films that play: right size, right speed, whole or not there at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from rookery.errors import RookeryError, UserError
from rookery.observers.video import write_video


def frames(count: int, height: int = 40, width: int = 60) -> Iterator[NDArray[np.uint8]]:
    for index in range(count):
        frame = np.full((height, width, 3), (40, 90, 160), np.uint8)
        left = index % (width - 8)
        frame[8:16, left : left + 8] = (250, 200, 30)
        yield frame


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the reader leaves its pipes open
def test_an_mp4_has_even_sizes_and_every_frame(tmp_path: Path) -> None:
    out = tmp_path / "a.mp4"
    write_video(frames(25, 41, 61), out, fps=25)
    reader = imageio_ffmpeg.read_frames(str(out))
    meta = next(reader)
    films = [np.frombuffer(data, np.uint8).reshape(42, 62, 3) for data in reader]
    assert meta["size"] == (62, 42)
    assert meta["fps"] == 25
    assert "yuv420p" in meta["pix_fmt"]
    assert meta["codec"].startswith("h264")
    assert len(films) == 25
    for film, frame in zip(films, frames(25, 41, 61), strict=True):
        assert np.abs(film[:41, :61].astype(int) - frame).mean() < 8
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_a_gif_loops_at_the_right_speed_and_a_sensible_size(tmp_path: Path) -> None:
    out = tmp_path / "a.gif"
    write_video(frames(100, 300, 600), out, fps=50)
    with Image.open(out) as film:
        assert film.size == (400, 200)
        assert film.info["loop"] == 0
        assert film.n_frames == 50  # type: ignore[attr-defined]
        total = 0
        for index in range(50):
            film.seek(index)
            total += film.info["duration"]
        assert total == 2000
        film.seek(0)
        assert np.abs(np.asarray(film.convert("RGB"))[0, 0].astype(int) - (40, 90, 160)).max() <= 8


def test_frames_may_be_grey_or_have_alpha(tmp_path: Path) -> None:
    for name, shape in (("grey", (20, 20)), ("one", (20, 20, 1)), ("alpha", (20, 20, 4))):
        write_video([np.full(shape, 128, np.uint8)] * 3, tmp_path / f"{name}.gif", fps=10)
        write_video([np.full(shape, 128, np.uint8)] * 3, tmp_path / f"{name}.mp4", fps=10)
    assert len(list(tmp_path.iterdir())) == 6


def test_a_film_that_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    def broken() -> Iterator[NDArray[np.uint8]]:
        yield from frames(3)
        raise KeyboardInterrupt

    for name in ("a.mp4", "a.gif"):
        (tmp_path / name).write_bytes(b"old")
        with pytest.raises(KeyboardInterrupt):
            write_video(broken(), tmp_path / name, fps=10)
        assert (tmp_path / name).read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.mp4 or \.gif.*'\.avi'"):
        write_video(frames(1), tmp_path / "a.avi", fps=10)
    with pytest.raises(UserError, match="no suffix"):
        write_video(frames(1), tmp_path / "film", fps=10)
    with pytest.raises(UserError, match="does not exist"):
        write_video(frames(1), tmp_path / "no" / "a.mp4", fps=10)
    with pytest.raises(UserError, match="1 frame per second"):
        write_video(frames(1), tmp_path / "a.mp4", fps=0)
    with pytest.raises(RookeryError, match="not a single frame"):
        write_video([], tmp_path / "a.mp4", fps=10)
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        write_video(frames(1), tmp_path / "folder.mp4", fps=10)


def test_an_unwritable_folder_is_said() -> None:
    with pytest.raises(RookeryError, match="cannot write"):
        write_video(frames(1), Path("/proc/a.gif"), fps=10)  # where not even root may write
