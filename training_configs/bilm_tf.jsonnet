// bilm.jsonnet with the recipe of bilm-tf, with which the paper's models were trained.
(import 'bilm.jsonnet') + {
  model+: { dropout: 0.1 },
  trainer+: {
    // The initial accumulator and the norm presuppose gradients of loss x window, which the model
    // has, as bilm-tf did.
    optimizer: { type: 'adagrad', lr: 0.2, initial_accumulator_value: 1.0 },
    grad_norm: 10.0,
    learning_rate_scheduler: null,
  },
}
