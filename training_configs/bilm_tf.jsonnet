// bilm.jsonnet with bilm-tf's recipe, which the paper's models used. It keeps the restarts of
// bilm.jsonnet, which bilm-tf does not have.
(import 'bilm.jsonnet') + {
  model+: { dropout: 0.1 },
  trainer+: {
    // The initial accumulator and the norm presuppose gradients of loss x window, which the model
    // has, as in bilm-tf.
    optimizer: { type: 'adagrad', lr: 0.2, initial_accumulator_value: 1.0 },
    grad_norm: 10.0,
    learning_rate_scheduler: null,
  },
}
