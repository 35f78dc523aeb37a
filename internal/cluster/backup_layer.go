package cluster

const ()
