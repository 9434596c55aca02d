"""The commands that need no AllenNLP, as commands of AllenNLP."""

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.elmo import score, uses_command
from elmo_plugin.plugin.commands.command import PlainCommand


@Subcommand.register("score")
class Score(PlainCommand):
    __doc__ = score.DESCRIPTION
    module = score


@Subcommand.register("uses")
class Uses(PlainCommand):
    __doc__ = uses_command.DESCRIPTION
    module = uses_command
