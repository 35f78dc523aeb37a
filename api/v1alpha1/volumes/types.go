// Package volumes declares the settings of the document's addons for volumes: local-path, snapshot-controller. It checks only settings that the rest of the
// document does not affect, and renders nothing.
package volumes

// LocalPath makes a directory on the node for each PersistentVolumeClaim. Such a volume stays on its node: it is lost with the node, and no other node can use it.
type LocalPath struct {
	// Directory of the volumes on each node.
	Path string `json:"path,omitempty" yaml:"path,omitempty" jsonschema:"default=/var/lib/local-path,maxLength=200" host:"none"`
	// Name of the StorageClass.
	StorageClass string `json:"storageClass,omitempty" yaml:"storageClass,omitempty" jsonschema:"default=local-path,maxLength=63,pattern=^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
	// Make it the default StorageClass, for claims that name no class. Left out: true, except with provider openstack, where cinder is the default.
	Default *bool `json:"default,omitempty" yaml:"default,omitempty"`
	// What happens to a volume when its claim is deleted: Delete removes the directory with all data, Retain keeps it.
	ReclaimPolicy string `json:"reclaimPolicy,omitempty" yaml:"reclaimPolicy,omitempty" jsonschema:"default=Delete,enum=Delete,enum=Retain"`
}

// SnapshotController binds each VolumeSnapshot to the content that a CSI driver makes.
type SnapshotController struct {
	// Pods of the controller. With 2, snapshots are served while a node is away.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=1,maximum=5"`
}
