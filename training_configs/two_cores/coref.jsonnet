// coref.jsonnet for two cores and some ten documents: training uses only the first sentences of
// each document (max_sentences).
local coref = import '../coref.jsonnet';

coref {
  embedding_dim:: 50,
  character_filters:: 50,
  hidden_size:: 50,
  feedforward_dim:: 50,
  dataset_reader+: { max_sentences: 20 },
  validation_dataset_reader: coref.dataset_reader,
  trainer+: { num_epochs: 20, patience: 5 },
}
