package addon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// CollectorNamespace is the namespace of the addon opentelemetry-collector, and CollectorPort the port of its pods for their metrics.
const (
	CollectorNamespace = "opentelemetry-collector"
	CollectorPort      = "8888"
)

// The programs of the addon opentelemetry-collector, by the label app.kubernetes.io/name of their pods: one on each node, and one that reads Kubernetes' events.
const (
	CollectorNode   = "opentelemetry-collector"
	CollectorEvents = "opentelemetry-collector-events"
)

// fields is a part of the collector's configuration.
type fields = map[string]any

func collector(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.Collector, a.Name)
	if err != nil {
		return nil, err
	}
	c := a.OpenTelemetryCollector
	has := map[string]bool{}
	for _, what := range c.Collect {
		has[what] = true
	}
	values := map[string]any{
		"Image": ref, "Namespace": CollectorNamespace, "Port": CollectorPort, "PodLogs": has[telemetry.PodLogs], "MachineLogs": has[telemetry.MachineLogs], "Metrics": has[telemetry.Metrics],
		"Nodes": has[telemetry.PodLogs] || has[telemetry.MachineLogs] || has[telemetry.Metrics], "Events": has[telemetry.Events], "NoWorkers": in.Doc.WorkerCount() == 0,
		"NodeApp": CollectorNode, "EventsApp": CollectorEvents,
	}
	secrets, paths, authorities := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, e := range c.Exporters {
		if e.Secret != "" {
			secrets[e.Secret] = true
		}
		if e.CA != "" {
			authorities[e.Name+".crt"] = e.CA
		}
		if e.Path != "" {
			paths[e.Path] = true
		}
	}
	values["Secrets"], values["Paths"] = slices.Sorted(maps.Keys(secrets)), slices.Sorted(maps.Keys(paths))
	node, events := nodePipelines(c, has), eventPipelines(c)
	for name, conf := range map[string]fields{"NodeConfig": node, "EventsConfig": events} {
		common(conf, in.Doc.Metadata.Name)
		text, err := yaml.Marshal(conf)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "render the configuration of %s", a.Name)
		}
		values[name] = indented(string(text))
	}
	values["Authorities"] = map[string]string{}
	for name, pem := range authorities {
		values["Authorities"].(map[string]string)[name] = indented(pem)
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render the manifest of %s", a.Name)
	}
	values["Checksum"] = checksum(text)
	return render(a.Name, collectorManifest, values)
}

// nodePipelines returns the receivers and pipelines of the collector of a node.
func nodePipelines(c *telemetry.OpenTelemetryCollector, has map[string]bool) fields {
	receivers, logs := fields{}, []string{}
	retry := fields{"enabled": true, "max_elapsed_time": "0s"} // wait rather than lose
	if has[telemetry.PodLogs] {
		exclude := []string{}
		for _, n := range c.ExcludedNamespaces {
			exclude = append(exclude, "/var/log/pods/"+n+"_*/*/*.log")
		}
		receivers["file_log"] = fields{"include": []string{"/var/log/pods/*/*/*.log"}, "exclude": exclude, "start_at": "beginning", "include_file_path": true, "include_file_name": false,
			"storage": "file_storage", "retry_on_failure": retry, "operators": []fields{{"type": "container", "add_metadata_from_filepath": true}}}
		logs = append(logs, "file_log")
	}
	if has[telemetry.MachineLogs] {
		levels := fields{"fatal": []string{"0", "1", "2"}, "error": "3", "warn": "4", "info": []string{"5", "6"}, "debug": "7"}
		copied := func(from, to string) fields {
			return fields{"type": "copy", "from": "body." + from, "to": `attributes["` + to + `"]`, "if": "body." + from + " != nil"}
		}
		receivers["journald"] = fields{"journalctl_path": "/usr/bin/journalctl", "convert_message_bytes": true, "priority": c.JournalPriority, "storage": "file_storage", "retry_on_failure": retry,
			"operators": []fields{{"type": "severity_parser", "parse_from": "body.PRIORITY", "mapping": levels, "if": "body.PRIORITY != nil"},
				copied("SYSLOG_IDENTIFIER", "journal.identifier"), copied("_SYSTEMD_UNIT", "systemd.unit"), copied("_PID", "process.pid"),
				{"type": "move", "from": "body.MESSAGE", "to": "body", "if": "body.MESSAGE != nil"}}}
		logs = append(logs, "journald")
	}
	pipelines := fields{}
	if sinks := exporterIDs(c, telemetry.Logs); len(logs) > 0 && len(sinks) > 0 {
		pipelines["logs"] = pipeline(logs, sinks)
	}
	if sinks := exporterIDs(c, telemetry.Metrics); has[telemetry.Metrics] && len(sinks) > 0 {
		receivers["kubelet"] = fields{"address": "${env:NODE_ADDRESS}:10250", "collection_interval": c.Interval.String()}
		pipelines["metrics"] = pipeline([]string{"kubelet"}, sinks)
	}
	return assembled(c, receivers, pipelines, telemetry.Logs, telemetry.Metrics)
}

// eventPipelines returns the receiver and the pipeline of the collector of events.
func eventPipelines(c *telemetry.OpenTelemetryCollector) fields {
	return assembled(c, fields{"events": fields{}}, fields{"logs": pipeline([]string{"events"}, exporterIDs(c, telemetry.Events))}, telemetry.Events)
}

func pipeline(receivers, exporters []string) fields {
	return fields{"receivers": receivers, "processors": []string{"memory_limiter", "resource"}, "exporters": exporters}
}

// assembled returns a configuration with the exporters of signals.
func assembled(c *telemetry.OpenTelemetryCollector, receivers, pipelines fields, signals ...string) fields {
	exporters, extensions, started := fields{}, fields{"file_storage": fields{"directory": "/state"}}, []string{"file_storage"}
	for _, e := range c.Exporters {
		if !slices.ContainsFunc(e.Signals, func(s string) bool { return slices.Contains(signals, s) }) {
			continue
		}
		exporters[exporterID(e)] = exporterConfig(e)
		if e.Secret != "" && e.Kind != telemetry.S3 {
			extensions["bearertokenauth/"+e.Name] = fields{"filename": "/etc/secrets/" + e.Secret + "/token"}
			started = append(started, "bearertokenauth/"+e.Name)
		}
	}
	return fields{"receivers": receivers, "exporters": exporters, "extensions": extensions, "service": fields{"extensions": started, "pipelines": pipelines}}
}

// common adds what all collectors share.
func common(conf fields, cluster string) {
	set := func(key, value string) fields { return fields{"key": key, "value": value, "action": "upsert"} }
	conf["processors"] = fields{
		"memory_limiter": fields{"check_interval": "1s", "limit_mib": 400, "spike_limit_mib": 100},
		"resource":       fields{"attributes": []fields{set("k8s.cluster.name", cluster), {"key": "k8s.node.name", "value": "${env:NODE_NAME}", "action": "insert"}}},
	}
	service := conf["service"].(fields)
	service["telemetry"] = fields{"logs": fields{"encoding": "json", "level": "info"},
		"metrics": fields{"level": "normal", "readers": []fields{{"pull": fields{"exporter": fields{"prometheus": fields{"host": "0.0.0.0", "port": 8888}}}}}}}
}

// exporterID names an exporter in configurations and metrics.
func exporterID(e telemetry.TelemetryExporter) string {
	kind := map[string]string{telemetry.OTLP: "otlp_grpc", telemetry.OTLPHTTP: "otlp_http"}[e.Kind]
	return cmp.Or(kind, e.Kind) + "/" + e.Name
}

func exporterIDs(c *telemetry.OpenTelemetryCollector, signal string) (out []string) {
	for _, e := range c.Exporters {
		if slices.Contains(e.Signals, signal) {
			out = append(out, exporterID(e))
		}
	}
	return out
}

// CollectorSink is what the pods of one program of the addon send to one exporter.
type CollectorSink struct {
	App      string // label app.kubernetes.io/name
	Exporter string // as metrics name it
	What     string // as metrics name it: "log_records" or "metric_points"
}

// CollectorSinks lists the sinks that certainly receive something: a machine may log no record above the priority info.
func CollectorSinks(c *telemetry.OpenTelemetryCollector) (out []CollectorSink) {
	count := func(app, signal string) {
		what := "log_records"
		if signal == telemetry.Metrics {
			what = "metric_points"
		}
		for _, id := range exporterIDs(c, signal) {
			out = append(out, CollectorSink{app, id, what})
		}
	}
	talkative := slices.Contains([]string{"info", "debug"}, c.JournalPriority)
	if slices.Contains(c.Collect, telemetry.PodLogs) || talkative && slices.Contains(c.Collect, telemetry.MachineLogs) {
		count(CollectorNode, telemetry.Logs)
	}
	if slices.Contains(c.Collect, telemetry.Metrics) {
		count(CollectorNode, telemetry.Metrics)
	}
	if slices.Contains(c.Collect, telemetry.Events) {
		count(CollectorEvents, telemetry.Events)
	}
	return out
}

func exporterConfig(e telemetry.TelemetryExporter) fields {
	queue := fields{"storage": "file_storage", "sizer": "items", "queue_size": 100000, "block_on_overflow": true, "num_consumers": 2, "batch": fields{"flush_timeout": "2s", "min_size": 1000, "max_size": 5000, "sizer": "items"}}
	out := fields{"sending_queue": queue, "retry_on_failure": fields{"enabled": true, "max_elapsed_time": "0s"}, "timeout": "30s"}
	ca := ""
	if e.CA != "" {
		ca = "/etc/authorities/" + e.Name + ".crt"
	}
	tls := fields{}
	if ca != "" {
		tls["ca_file"] = ca
	}
	if e.Secret != "" && e.Kind != telemetry.S3 {
		out["auth"] = fields{"authenticator": "bearertokenauth/" + e.Name}
	}
	switch e.Kind {
	case telemetry.OTLP:
		if e.Transport == telemetry.TCP {
			tls["insecure"] = true
		}
		out["endpoint"], out["tls"], out["compression"] = e.Address, tls, "gzip"
	case telemetry.OTLPHTTP:
		out["endpoint"], out["tls"], out["compression"] = e.Address, tls, "gzip"
	case telemetry.Syslog:
		out["address"], out["network"] = e.Address, e.Transport
		if ca != "" {
			out["ca_file"] = ca
		}
	case telemetry.S3:
		queue["batch"] = fields{"flush_timeout": "30s", "min_size": 5000, "max_size": 20000, "sizer": "items"}
		files := "/etc/secrets/" + e.Secret
		out["url"], out["bucket"], out["prefix"], out["region"], out["node"] = e.Address, e.Bucket, e.Prefix, e.Region, "${env:NODE_NAME}"
		out["access_key_file"], out["secret_key_file"] = files+"/accessKeyID", files+"/secretAccessKey"
		if ca != "" {
			out["ca_file"] = ca
		}
	case telemetry.File:
		return fields{"path": path.Join(e.Path, "${env:PART}-"+e.Name+".json"), "rotation": fields{"max_megabytes": 100, "max_backups": 5}, "create_directory": false}
	}
	return out
}

// hostOf returns the host of an address or URL, for people.
func hostOf(e telemetry.TelemetryExporter) string {
	if u, err := url.Parse(e.Address); err == nil && u.Host != "" {
		return u.Host
	}
	if e.Kind == telemetry.File {
		return e.Path + " on each node"
	}
	return e.Address
}

// collectorReason says where the collector sends to.
func collectorReason(c *telemetry.OpenTelemetryCollector) string {
	var to []string
	for _, e := range c.Exporters {
		to = append(to, hostOf(e))
	}
	return fmt.Sprintf("it sends %s to %s", strings.Join(c.Collect, ", "), strings.Join(to, ", "))
}
