// Package monitoring declares the settings of the document's addons that measure: metrics-server, node-exporter, prometheus. It checks only settings
// that the rest of the document does not affect, and renders nothing.
package monitoring

import "github.com/naupegos/naupegos/api/strict"

// MetricsServer collects the CPU and memory usage of nodes and pods from the kubelets.
type MetricsServer struct {
	// Pods of metrics-server. With 2, metrics stay available while a node is away.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=1,maximum=5"`
	// Interval between two collections, from 10s to 5m.
	Resolution strict.Duration `json:"resolution,omitzero" yaml:"resolution,omitempty" jsonschema:"default=15s"`
}

// NodeExporter serves the metrics of each machine (processors, memory, disks, network) at the machine's own address.
type NodeExporter struct {
	// Port on each machine, below the node ports and apart from the ports of Kubernetes.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=9100,minimum=1024,maximum=65535" host:"none"`
}

// Prometheus collects metrics of the cluster and what runs on it, and sends alerts through Alertmanager.
type Prometheus struct {
	// Pods of Prometheus and of Alertmanager. With 2, metrics are collected and alerts sent while a node is away.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=1,maximum=2"`
	// Days for which metrics are kept, unless they exceed 80 % of the storage.
	RetentionDays int `json:"retentionDays,omitempty" yaml:"retentionDays,omitempty" jsonschema:"default=15,minimum=1,maximum=3650"`
	// A volume for the metrics of each Prometheus, and one of 1 GiB for each Alertmanager. Left out: they are lost with the pod, and take at most 8 GiB of the node's disk.
	Storage *PrometheusStorage `json:"storage,omitempty" yaml:"storage,omitempty"`
	// Memory request and limit of each Prometheus. Left out: it requests 256Mi and has no limit.
	Memory string `json:"memory,omitempty" yaml:"memory,omitempty" jsonschema:"maxLength=20"`
	// Interval between two readings of a target and two evaluations of the rules, from 10s to 2m.
	ScrapeInterval strict.Duration `json:"scrapeInterval,omitzero" yaml:"scrapeInterval,omitempty" jsonschema:"default=15s"`
	// Labels of all alerts and of the metrics that are sent elsewhere, besides cluster, the cluster's name.
	ExternalLabels map[string]string `json:"externalLabels,omitempty" yaml:"externalLabels,omitempty"`
	// Servers that receive all metrics by the remote write protocol, such as Mimir, Thanos or VictoriaMetrics.
	RemoteWrite []RemoteWrite `json:"remoteWrite,omitempty" yaml:"remoteWrite,omitempty" jsonschema:"maxItems=5"`
	// Where Alertmanager sends alerts. Left out: nowhere.
	Receivers []AlertReceiver `json:"receivers,omitempty" yaml:"receivers,omitempty" jsonschema:"maxItems=50"`
	// Secret of the namespace prometheus with a configuration of Alertmanager of your own, instead of receivers, in the key alertmanager.yml.
	AlertmanagerSecret string `json:"alertmanagerSecret,omitempty" yaml:"alertmanagerSecret,omitempty" jsonschema:"maxLength=253,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"none"`
}

// PrometheusStorage is the volume of one Prometheus.
type PrometheusStorage struct {
	// Its size, which can only grow.
	Size string `json:"size,omitempty" yaml:"size,omitempty" jsonschema:"default=20Gi,maxLength=20"`
	// Its StorageClass. Left out: the default one.
	StorageClass string `json:"storageClass,omitempty" yaml:"storageClass,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"`
}

// RemoteWrite is a server that receives metrics.
type RemoteWrite struct {
	// Its address, as pods reach it.
	URL string `json:"url" yaml:"url" jsonschema:"required,maxLength=500" host:"none"`
	// Secret of the namespace prometheus to sign in with: with the key token, or the keys username and password.
	Secret string `json:"secret,omitempty" yaml:"secret,omitempty" jsonschema:"maxLength=253,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"none"`
	// Form of the credential in the Secret: bearer is a token, basic a user name and a password.
	Auth string `json:"auth,omitempty" yaml:"auth,omitempty" jsonschema:"default=bearer,enum=bearer,enum=basic"`
}

// AlertReceiver is a place that alerts are sent to.
type AlertReceiver struct {
	// Name of the receiver.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Kind of receiver: webhook gets JSON, slack also serves Mattermost and Rocket.Chat, teams is a workflow of Microsoft Teams.
	Kind string `json:"kind" yaml:"kind" jsonschema:"required,enum=webhook,enum=slack,enum=teams,enum=pagerduty,enum=email"`
	// Secret of the namespace prometheus with the key url (webhook, slack, teams), routingKey (pagerduty) or password (email).
	Secret string `json:"secret,omitempty" yaml:"secret,omitempty" jsonschema:"maxLength=253,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"none"`
	// Address of a webhook that is no secret.
	URL string `json:"url,omitempty" yaml:"url,omitempty" jsonschema:"maxLength=500" host:"none"`
	// Channel of slack. Left out: that of the secret address.
	Channel string `json:"channel,omitempty" yaml:"channel,omitempty" jsonschema:"maxLength=80"`
	// How mail is sent.
	Email *AlertEmail `json:"email,omitempty" yaml:"email,omitempty"`
	// Labels that an alert must have, such as severity: critical. Left out: all alerts.
	Match map[string]string `json:"match,omitempty" yaml:"match,omitempty"`
}

// AlertEmail says how alerts are sent by mail.
type AlertEmail struct {
	// Addresses that get the mail.
	To []string `json:"to" yaml:"to" jsonschema:"required,minItems=1,maxItems=20"`
	// Address of the sender.
	From string `json:"from" yaml:"from" jsonschema:"required,maxLength=254"`
	// The mail server as HOST:PORT, which must offer TLS.
	Server string `json:"server" yaml:"server" jsonschema:"required,maxLength=260" host:"none"`
	// User who signs in with the password of the Secret.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=254"`
}
