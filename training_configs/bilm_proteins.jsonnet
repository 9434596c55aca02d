// A biLM of proteins, as SeqVec is (Heinzinger et al. 2019), small enough for a laptop: a token is a
// residue, and a sentence a protein. The text has a protein in each line, with spaces between its
// residues, as in `M K V L`; docs/proteins.md makes it from a FASTA file. In FOLDER, it has the
// parts `train` and `heldout`:
//
//   BILM_TEXT=FOLDER python -m elmo_plugin train training_configs/bilm_proteins.jsonnet \
//     -s OUT
//
// Other sequences of few symbols, such as chords or phonemes, need no other numbers.
(import 'bilm_words.jsonnet') + {
  // A residue is one letter, so the limit of bilm_words.jsonnet is not needed. This one is the token
  // indexer's default, so that a task's config does not need to name it.
  dataset_reader+: { max_characters_per_token: 50 },
  train_data_path: std.extVar('BILM_TEXT') + '/train',
  validation_data_path: std.extVar('BILM_TEXT') + '/heldout',

  // All symbols of the text, at most the 25 of UniProt: 20 amino acids, the rare U and O, and B, Z
  // and X for residues that are not known for certain.
  vocabulary+: { min_count: 1 },

  data_loader+: {
    batch_size: 16,  // as in bilm.jsonnet; with more than ten million residues, 64
    window: 100,  // a protein has some hundred residues, and a sentence of text 20 words
    restart_every: 10,  // 1,000 tokens, as in bilm.jsonnet
  },

  // The LSTMs have the sizes of bilm.jsonnet, so vectors have 128 dimensions; SeqVec has 1,024.
  // If you change projection_dim, which is the size of a symbol's row too, it should be no less than
  // the number of symbols: the softmax can then have any probabilities.
  model+: { n_negative_samples: null },  // the full softmax, because 28 outputs cost nothing
}
