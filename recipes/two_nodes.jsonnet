// Trains on two machines. Each has the text, the packages and an output folder of its own:
//
//   export PRIMARY=10.0.0.1 PORT=29500
//   python -m elmo_plugin train recipes/two_nodes.jsonnet -s OUT --node-rank 0  # on 10.0.0.1
//   python -m elmo_plugin train recipes/two_nodes.jsonnet -s OUT --node-rank 1  # on the other
//
// If training is stopped, start both again with --recover.
(import '../training_configs/bilm.jsonnet') + {
  distributed: {
    num_nodes: 2,
    cuda_devices: [-1],  // of each machine: two GPUs are [0, 1], and -1 is a process on a CPU
    primary_address: std.extVar('PRIMARY'),
    primary_port: std.parseInt(std.extVar('PORT')),
  },
}
