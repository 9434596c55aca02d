"""
`--include-package` imports a package and everything in it. To find the modules, AllenNLP calls
Python's `walk_packages` without the package's name, which imports each sub-package by its bare name
from the current folder: with a package that has a folder `text`, it runs the user's `text.py`.

Importing this module makes AllenNLP list the modules without importing any; AllenNLP's function
calls itself for each sub-package by its full name. It looks up the name `pkgutil` only after it has
imported the package, so the patch already serves the call that imports this module. Remove it when
AllenNLP passes the package's name.
"""

import pkgutil
from types import SimpleNamespace

from allennlp.common import util

util.pkgutil = SimpleNamespace(walk_packages=pkgutil.iter_modules)  # type: ignore[assignment]
