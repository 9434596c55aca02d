import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.arguments import print_text
from elmo_plugin.files.standard_streams import check_standard_output
from elmo_plugin.formats.archive import read_weights
from elmo_plugin.formats.mixes import find_mixes
from elmo_plugin.formats.unpack import renamed, unpacked
from elmo_plugin.plugin.commands.command import Command, input_path


@Subcommand.register("elmo-mix")
class ElmoMix(Command):
    """
    Prints the layer weights s and the scale gamma of each mix in the archives of models with the
    embedder "elmo" or AllenNLP's own "elmo_token_embedder". Only the weights of an archive are
    read.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "archives",
            nargs="+",
            metavar="archive",
            help="the model.tar.gz of a trained model, or the folder of a training run",
        )

    def run(self, args: argparse.Namespace) -> None:
        check_standard_output()
        lines = []
        for archive in args.archives:
            path = input_path("archive", archive, "the model.tar.gz of a trained model")
            with renamed({path: archive}), unpacked(Path(path)) as folder:
                if not folder.is_dir():
                    raise InputError("expected a model.tar.gz, found another kind of file")
                mixes = find_mixes(read_weights(folder))
                if not mixes:
                    raise InputError(
                        "expected a model with a mix of ELMo's layers, a parameter "
                        "scalar_mix_0.gamma, found none"
                    )
            lines += [f"{archive} {name}: {mix}" for name, mix in mixes.items()]
        print_text("\n".join(lines))
