// bilm.jsonnet with a biLM that reads words from a table, the paper's alternative to characters. A
// word that is not in the vocabulary has the vector of <UNK>, so a character CNN is better for most
// texts; a table suits a closed vocabulary, such as phonemes, chords or symbols.
(import 'bilm.jsonnet') + {
  // A word is found by all of its bytes: more than those of the longest word in the vocabulary, and
  // the marks of its start and its end.
  dataset_reader+: { max_characters_per_token: 200 },
  model+: {
    char_cnn:: null,
    words: {
      dim: $.model.lstm.projection_dim,  // size of a word's row
      tied: true,  // the softmax has the same weights, as bilm-tf's share_embedding_softmax
    },
  },
}
