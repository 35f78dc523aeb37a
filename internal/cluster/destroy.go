package cluster

// Findings about the volume of a PersistentVolume.
const ()
