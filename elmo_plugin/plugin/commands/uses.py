"""The command `uses`, which needs no AllenNLP, as one of AllenNLP's."""

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.elmo import uses_command
from elmo_plugin.plugin.commands.command import PlainCommand


@Subcommand.register("uses")
class Uses(PlainCommand):
    __doc__ = uses_command.DESCRIPTION
    module = uses_command
