package cluster

// What a machine must have before anything is put on it.
const ()
