"""
Importing and using AllenNLP 2.10.1 prints warnings that users cannot act on:

- fairscale 0.4.6 and AllenNLP's trainer call `torch.cuda.amp`, which PyTorch 2.4 deprecated;
- fairscale calls `torch.jit.script`, which PyTorch 2.14 deprecated;
- rouge imports `pkg_resources`, which setuptools deprecated.

Only these warnings of these modules are ignored; that of `torch.jit.script`, which names PyTorch's
own module, only while fairscale is imported. Remove an entry when its package is fixed.

The command `allennlp` imports these modules before any plugin, and still prints the warnings; a
program that imports this package first does not, such as `python -m elmo_plugin`.
"""

import warnings

for category, message, module in (
    (FutureWarning, r"`torch\.cuda\.amp\.custom_", r"fairscale\."),
    (FutureWarning, r"`torch\.cuda\.amp\.", r"allennlp\."),
    (UserWarning, "pkg_resources is deprecated", r"rouge\."),
):
    warnings.filterwarnings("ignore", message, category, module)

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"`torch\.jit\.script`", FutureWarning)
    import fairscale.nn  # noqa: F401
