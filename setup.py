"""The package list: the stages under atlasgen/ and the three mapped folders at the top level.

Everything else about the distribution is in pyproject.toml. The list is computed because
`atlasgen build` adds a package under generated/ for every shipped rule.
"""

from setuptools import find_packages, setup

MAPPED_FOLDERS = ("generated", "specs", "autotune")


def mapped_packages(folder: str) -> list[str]:
    """Names, below atlasgen, of one top-level folder and of the packages inside it."""
    return [f"atlasgen.{folder}"] + [f"atlasgen.{folder}.{name}" for name in find_packages(folder)]


setup(
    packages=find_packages(include=["atlasgen", "atlasgen.*"])
    + [name for folder in MAPPED_FOLDERS for name in mapped_packages(folder)],
    package_dir={"atlasgen": "atlasgen"} | {f"atlasgen.{folder}": folder for folder in MAPPED_FOLDERS},
)
