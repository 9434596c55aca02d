import argparse

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.elmo import score
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.faster.busy_machine import do_not_spin_if_busy
from elmo_plugin.plugin.task_address import with_repeats


@Subcommand.register("score")
class Score(Command):
    __doc__ = score.DESCRIPTION

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        score.add_arguments(parser)

    def run(self, args: argparse.Namespace) -> None:
        if args.text is not None:
            args.text = with_repeats(args.text)
        do_not_spin_if_busy()
        score.run(args)
