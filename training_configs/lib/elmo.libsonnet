// Turns any config into its ELMo version, in one line:
//
//   (import 'lib/elmo.libsonnet').input(import 'ner.jsonnet', { archive_file: 'model.tar.gz' }, dim=256)
//
// `input` concatenates ELMo vectors to the input of the task's encoder, and `output` to its output
// (Peters et al. 2018, section 3.3: SNLI and SQuAD gain from that). `both` does both, with a mix for
// each and one pass of the biLM. The parameters of all three are
//
//   config    a config whose model has a `text_field_embedder` and an `encoder`
//   embedder  parameters of the token embedder "elmo", without the number of mixes: `pretrained`,
//             `archive_file`, or `options_file` and `weight_file`; and `dropout`, `cache_dir`, ...
//   dim       size of an ELMo vector, twice the biLM's projection_dim; `dim` below computes it from
//             an options file:  dim=elmo.dim(import 'options.json')
//   max_characters_per_token   that of the biLM, if it is not 50
//
// The sizes of the layers that read the vectors grow accordingly.
{
  dim(options):: 2 * options.lstm.projection_dim,

  input(config, embedder, dim, max_characters_per_token=50)::
    embedded(config, embedder, 1, max_characters_per_token) {
      model+: { encoder: widened(config.model.encoder, dim) },
    },

  output(config, embedder, dim, max_characters_per_token=50)::
    embedded(config, embedder, 1, max_characters_per_token) {
      model+: at_output(config.model, config.model.encoder, dim, columns_before(config)),
    },

  both(config, embedder, dim, max_characters_per_token=50)::
    embedded(config, embedder, 2, max_characters_per_token) {
      model+: at_output(
        config.model, widened(config.model.encoder, dim), dim, columns_before(config) + dim
      ),
    },

  // AllenNLP's encoders use one of these two names for the size of their input.
  local widened(encoder, dim) =
    local size = if 'input_size' in encoder then 'input_size' else 'input_dim';
    encoder { [size]+: dim },

  local embedded(config, embedder, mixes, max_characters_per_token) = config {
    local indexed(reader) = reader {
      token_indexers: (
        // This is the default of AllenNLP's readers.
        if 'token_indexers' in reader then reader.token_indexers else { tokens: 'single_id' }
      ) + { elmo: { type: 'elmo', max_characters_per_token: max_characters_per_token } },
    },
    dataset_reader: indexed(config.dataset_reader),
    [if 'validation_dataset_reader' in config then 'validation_dataset_reader']:
      indexed(config.validation_dataset_reader),
    model+: {
      text_field_embedder+: {
        token_embedders+: {
          elmo: { type: 'elmo', num_output_representations: mixes } + embedder,
        },
      },
    },
  },

  // Column at which the ELMo vectors start. AllenNLP sorts the embedders by their keys.
  local columns_before(config) = std.foldl(
    function(sum, size) sum + size,
    [
      if 'embedding_dim' in embedder.value then embedder.value.embedding_dim
      else error 'elmo.libsonnet: the size of the token embedder "' + embedder.key + '" is not '
                 + 'written in the config; give it a key that comes after "elmo"'
      for embedder in key_values(config.model.text_field_embedder.token_embedders)
      if embedder.key < 'elmo'
    ],
    0,
  ),
  local key_values(object) = [{ key: key, value: object[key] } for key in std.objectFields(object)],

  local at_output(model, encoder, dim, start) = {
    encoder: { type: 'elmo_output', encoder: encoder, elmo_dim: dim, start: start },
    // In allennlp-models, the encoder's output is read by a feedforward, or by ESIM's projection
    // together with three more of its size: the attended vectors, the difference and the product.
    [if 'feedforward' in model then 'feedforward']: model.feedforward { input_dim+: dim },
    [if 'projection_feedforward' in model then 'projection_feedforward']:
      model.projection_feedforward { input_dim+: 4 * dim },
  },
}
