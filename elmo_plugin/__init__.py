from elmo_plugin.data import data_loader, dataset_reader, token_indexer, vocabulary
from elmo_plugin.models import bilm
