"""The command `score`, which needs no AllenNLP, as one of AllenNLP's."""

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.elmo import score
from elmo_plugin.plugin.commands.command import PlainCommand


@Subcommand.register("score")
class Score(PlainCommand):
    __doc__ = score.DESCRIPTION
    module = score
