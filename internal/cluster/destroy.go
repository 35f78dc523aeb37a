package cluster

// What can be wrong with the volume of a PersistentVolume.
const ()
