import argparse
from collections.abc import Mapping
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.mixes import Mix, find_mixes
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.formats.archive_files import opened_archive, read_weights
from elmo_plugin.plugin.commands.command import Command, check_output_file, input_path, print_text

PICTURES = (".pdf", ".png", ".svg")


@Subcommand.register("elmo-mix")
class ElmoMix(Command):
    """
    Prints the weights s of the layers and the scale gamma of each mix in the archives of models,
    and draws them as in figure 2 of the paper. It reads only the weights of an archive, with the
    embedder "elmo" or AllenNLP's own "elmo_token_embedder".
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "archives",
            nargs="+",
            metavar="archive",
            help="the model.tar.gz of a trained model, or the folder of a training run",
        )
        parser.add_argument(
            "--plot", metavar="FILE", help=f"a picture to write, {', '.join(PICTURES)}"
        )

    def run(self, args: argparse.Namespace) -> None:
        if args.plot is not None:
            check_output_file("--plot", args.plot)
            if Path(args.plot).suffix not in PICTURES:
                raise InputError(
                    f"--plot: {args.plot}: expected a file to write, {' or '.join(PICTURES)}"
                )
        mixes = {}
        for archive in args.archives:
            path = input_path("archive", archive, "the model.tar.gz of a trained model")
            mixes.update({f"{archive} {name}": mix for name, mix in mixes_of_archive(path).items()})
        print_text(mix_table(mixes))
        if args.plot is not None:
            draw_mixes(mixes, Path(args.plot))
            print_text(f"wrote {args.plot}")


def mixes_of_archive(archive_file: str) -> dict[str, Mix]:
    """
    The mixes of the model in an archive or in the folder of a training run, by name.

    # Raises

    `InputError`
        If it is damaged, or if the model has no mix.
    """
    with opened_archive(archive_file) as folder:
        mixes = find_mixes(read_weights(folder))
        if not mixes:
            raise InputError(
                "expected a model with a mix of ELMo's layers, a parameter scalar_mix_0.gamma, "
                "found none"
            )
    return mixes


def mix_table(mixes: Mapping[str, Mix]) -> str:
    """The mixes in lines of text, one for each mix, below a header."""
    n_layers = max(len(mix.weights) for mix in mixes.values())
    width = max(map(len, mixes))
    columns = [*(f"s_{j}" for j in range(n_layers)), "gamma"]
    lines = [" " * width + "".join(f"{column:>9}" for column in columns)]
    for name, mix in mixes.items():
        weights = [f"{s_j:.4f}" for s_j in mix.weights] or ["the top layer alone"]
        cells = "".join(f"{cell:>9}" for cell in weights).ljust(9 * n_layers)
        lines.append(f"{name:<{width}}{cells}{mix.gamma:>9.4f}")
    return "\n".join(lines)


def draw_mixes(mixes: Mapping[str, Mix], picture: Path) -> None:
    """Draws the mixes by name: a row for each, in which a darker cell is a larger weight."""
    import numpy as np
    from matplotlib.figure import Figure  # and not pyplot, whose settings are the caller's

    n_layers = max(1, *(len(mix.weights) for mix in mixes.values()))
    weights = np.full((len(mixes), n_layers), np.nan)
    for row, mix in zip(weights, mixes.values()):
        row[: len(mix.weights)] = mix.weights
    labels = [name.replace("$", r"\$").replace(" ", "\n") for name in mixes]
    margin = max(len(line) for label in labels for line in label.split("\n"))
    figure = Figure(
        figsize=(0.09 * margin + 0.9 * n_layers, 0.6 + 0.6 * len(mixes)), layout="constrained"
    )
    axes = figure.subplots()
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in np.ndenumerate(weights):
        text = "" if np.isnan(weight) else f"{weight:.2f}"
        axes.text(column, row, text, ha="center", va="center", color="wk"[int(weight < 0.6)])
    axes.set_xticks(range(n_layers), ["words", *(f"LSTM {j}" for j in range(1, n_layers))])
    labels = [f"{label}\n$\\gamma$ = {mix.gamma:.2f}" for label, mix in zip(labels, mixes.values())]
    axes.set_yticks(range(len(mixes)), labels, fontsize="small")
    with atomic_write(picture) as temporary:
        figure.savefig(temporary, format=picture.suffix[1:], dpi=150)
