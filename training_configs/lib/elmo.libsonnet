// Converts a config to its ELMo version; the library is in the package.
import '../../elmo_plugin/libsonnet/elmo.libsonnet'
