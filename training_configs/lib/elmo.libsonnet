// The library that turns a config into its ELMo version. It comes with the package.
import '../../elmo_plugin/libsonnet/elmo.libsonnet'
