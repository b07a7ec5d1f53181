"""A window that shows one picture after another."""

from typing import Any, Optional

import numpy as np


class Window:
    """A window of the desktop; `open` gives None where there is no desktop."""

    def __init__(self, root: Any, label: Any):
        self._root, self._label = root, label
        self._photo: Any = None  # Tk draws only what somebody holds on to

    @classmethod
    def open(cls, title: str) -> Optional["Window"]:
        try:
            import tkinter
        except ImportError:
            return None
        try:
            root = tkinter.Tk()
        except tkinter.TclError:
            return None
        root.title(title)
        label = tkinter.Label(root)
        label.pack()
        return cls(root, label)

    def show(self, picture: np.ndarray) -> None:
        from PIL import Image, ImageTk

        self._photo = ImageTk.PhotoImage(Image.fromarray(picture), master=self._root)
        self._label.configure(image=self._photo)
        self._root.update()

    def close(self) -> None:
        self._root.destroy()
