// Package telemetry declares the settings of the document's addon opentelemetry-collector. It checks only settings that the rest of the document does not affect,
// and renders nothing.
package telemetry

import "github.com/naupegos/naupegos/api/strict"

// OpenTelemetryCollector sends what nodes, pods and Kubernetes log and measure to other places.
type OpenTelemetryCollector struct {
	// Sources to collect: pod-logs (all containers' output), machine-logs (the journal of systemd), events (Kubernetes' events, as logs), metrics (of nodes, pods and containers, from the kubelets). Left out: all that an exporter takes.
	Collect []string `json:"collect,omitempty" yaml:"collect,omitempty" jsonschema:"maxItems=4"`
	// Namespaces whose pods' logs are not sent.
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty" yaml:"excludedNamespaces,omitempty" jsonschema:"maxItems=100"`
	// Least priority of the journal's records that are sent, as journalctl names it.
	JournalPriority string `json:"journalPriority,omitempty" yaml:"journalPriority,omitempty" jsonschema:"default=info,enum=emerg,enum=alert,enum=crit,enum=err,enum=warning,enum=notice,enum=info,enum=debug"`
	// Interval between two measurements, up to 10m.
	Interval strict.Duration `json:"interval,omitzero" yaml:"interval,omitempty" jsonschema:"default=30s"`
	// Targets of the signals.
	Exporters []TelemetryExporter `json:"exporters" yaml:"exporters" jsonschema:"required,minItems=1,maxItems=10"`
}

// TelemetryExporter is a place that logs, events and metrics are sent to.
type TelemetryExporter struct { //nolint:revive // the JSON Schema has this name
	// Name of the exporter.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// Kind: otlp is OTLP by gRPC, otlphttp is OTLP by HTTP, syslog takes logs and events in the format of RFC 5424, file writes files on each node, s3 writes objects into a bucket.
	Kind string `json:"kind" yaml:"kind" jsonschema:"required,enum=otlp,enum=otlphttp,enum=syslog,enum=file,enum=s3"`
	// Its address as pods reach it: HOST:PORT of otlp and syslog, the URL of otlphttp and s3.
	Address string `json:"address,omitempty" yaml:"address,omitempty" jsonschema:"maxLength=500" host:"none"`
	// Signals to send there: logs, events, metrics. Left out: all that the kind takes.
	Signals []string `json:"signals,omitempty" yaml:"signals,omitempty" jsonschema:"maxItems=3"`
	// Secret of the namespace opentelemetry-collector to sign in with: with the key token (otlp, otlphttp), or the keys accessKeyID and secretAccessKey (s3).
	Secret string `json:"secret,omitempty" yaml:"secret,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"none"`
	// Authorities of the server's certificate in PEM. Left out: public ones.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" jsonschema:"maxLength=65536" host:"none"`
	// How it is reached: tls, or tcp without encryption, and for syslog also udp. Of otlphttp and s3, the URL says it.
	Transport string `json:"transport,omitempty" yaml:"transport,omitempty" jsonschema:"enum=tls,enum=tcp,enum=udp"`
	// Directory of file on each node, below /var/log.
	Path string `json:"path,omitempty" yaml:"path,omitempty" jsonschema:"maxLength=200" host:"none"`
	// Bucket of s3, which must exist.
	Bucket string `json:"bucket,omitempty" yaml:"bucket,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"`
	// Path in the bucket below which the objects are.
	Prefix string `json:"prefix,omitempty" yaml:"prefix,omitempty" jsonschema:"maxLength=200,pattern=^([A-Za-z0-9]([-A-Za-z0-9._/]*[A-Za-z0-9])?)?$"`
	// Region of the bucket, for servers that have regions.
	Region string `json:"region,omitempty" yaml:"region,omitempty" jsonschema:"maxLength=60,pattern=^([a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?)?$"`
}

// Sources that the collectors read.
const (
	PodLogs     = "pod-logs"
	MachineLogs = "machine-logs"
	Events      = "events"
	Metrics     = "metrics"
)

// Logs is a signal that exporters take; events and metrics are named as above.
const Logs = "logs"

// Kinds of exporters.
const (
	OTLP     = "otlp"
	OTLPHTTP = "otlphttp"
	Syslog   = "syslog"
	File     = "file"
	S3       = "s3"
)

// The transports.
const (
	TLS = "tls"
	TCP = "tcp"
	UDP = "udp"
)
