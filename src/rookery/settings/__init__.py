"""Settings: YAML trees and `key=value` overrides turned into frozen structs, for any msgspec schema."""

from rookery.settings.build import SettingError, build
from rookery.settings.describe import Row, describe, to_yaml
from rookery.settings.overrides import apply_overrides
from rookery.settings.ranges import Range, pull_ranges
from rookery.settings.schema import Tree
from rookery.settings.tree import complete, merge, to_tree
from rookery.settings.yaml12 import read_file, read_yaml

__all__ = [
    "Range",
    "Row",
    "SettingError",
    "Tree",
    "apply_overrides",
    "build",
    "complete",
    "describe",
    "merge",
    "pull_ranges",
    "read_file",
    "read_yaml",
    "to_tree",
    "to_yaml",
]
