package telemetry

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
)

// longestInterval is the longest interval between two measurements.
const longestInterval = 10 * time.Minute

// takes lists what each kind of exporter takes.
var takes = map[string][]string{OTLP: {Logs, Events, Metrics}, OTLPHTTP: {Logs, Events, Metrics}, Syslog: {Logs, Events}, File: {Logs, Events, Metrics}, S3: {Logs, Events, Metrics}}

// Fill sets the defaults that depend on other settings.
func (c *OpenTelemetryCollector) Fill() {
	if c == nil {
		return
	}
	for i := range c.Exporters {
		e := &c.Exporters[i]
		if len(e.Signals) == 0 {
			e.Signals = slices.Clone(takes[e.Kind])
		}
		switch e.Kind {
		case OTLP, Syslog:
			if e.Transport == "" {
				e.Transport = TLS
			}
		case File:
			if e.Path == "" {
				e.Path = "/var/log/opentelemetry"
			}
		}
	}
	if len(c.Collect) > 0 {
		return
	}
	for _, s := range []struct{ source, signal string }{{PodLogs, Logs}, {MachineLogs, Logs}, {Events, Events}, {Metrics, Metrics}} {
		if slices.ContainsFunc(c.Exporters, func(e TelemetryExporter) bool { return slices.Contains(e.Signals, s.signal) }) {
			c.Collect = append(c.Collect, s.source)
		}
	}
}

// Checks are checks of the document's package: of the URL of something, and of authorities in PEM.
type Checks struct {
	Web         func(r *strict.Findings, at, address, example, what string)
	Authorities func(r *strict.Findings, at, text string)
}

// Check reports invalid settings of the addon at field; missing settings are invalid, too.
func (c *OpenTelemetryCollector) Check(r *strict.Findings, field string, of Checks) {
	if c == nil {
		r.Add(field, "opentelemetry-collector needs a place to send to", "give opentelemetryCollector.exporters", field+".name")
		return
	}
	field += ".opentelemetryCollector"
	r.Choices(field+".collect", "something to collect", c.Collect, []string{PodLogs, MachineLogs, Events, Metrics})
	for i, n := range c.ExcludedNamespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			r.Add(strict.Item(field+".excludedNamespaces", i), strict.Quote(n)+" is not the name of a namespace", "write it in lower case, with digits and -")
		}
	}
	if c.Interval.Duration > longestInterval {
		r.Add(field+".interval", c.Interval.String()+" is longer than 10m", "")
	}
	for i, e := range c.Exporters {
		at := strict.Item(field+".exporters", i)
		if first := slices.IndexFunc(c.Exporters, func(o TelemetryExporter) bool { return o.Name == e.Name }); first < i && e.Name != "" {
			r.Add(at+".name", fmt.Sprintf("exporter %s is already listed, at exporters[%d]", strict.Quote(e.Name), first), "take another name")
		}
		e.check(r, at, of)
	}
	for i, what := range c.Collect {
		signal := map[string]string{PodLogs: Logs, MachineLogs: Logs, Events: Events, Metrics: Metrics}[what]
		if signal != "" && !slices.ContainsFunc(c.Exporters, func(e TelemetryExporter) bool { return slices.Contains(e.Signals, signal) }) {
			r.Add(strict.Item(field+".collect", i), "no exporter takes "+what, "add "+signal+" to the signals of one, or remove it", field+".exporters")
		}
	}
}

func (e TelemetryExporter) check(r *strict.Findings, at string, of Checks) {
	if known := takes[e.Kind]; known != nil {
		r.Choices(at+".signals", "a signal that "+e.Kind+" takes", e.Signals, known)
	}
	for _, f := range []struct {
		key   string
		given bool
		kinds []string
	}{
		{"address", e.Address != "", []string{OTLP, OTLPHTTP, Syslog, S3}}, {"secret", e.Secret != "", []string{OTLP, OTLPHTTP, S3}}, {"ca", e.CA != "", []string{OTLP, OTLPHTTP, Syslog, S3}},
		{"transport", e.Transport != "", []string{OTLP, Syslog}}, {"path", e.Path != "", []string{File}},
		{"bucket", e.Bucket != "", []string{S3}}, {"prefix", e.Prefix != "", []string{S3}}, {"region", e.Region != "", []string{S3}},
	} {
		if f.given && takes[e.Kind] != nil && !slices.Contains(f.kinds, e.Kind) {
			r.Add(at+"."+f.key, "does not belong to kind "+e.Kind, "remove it", at+".kind")
		}
	}
	of.Authorities(r, at+".ca", e.CA)
	switch e.Kind {
	case OTLP, Syslog:
		host, port, err := net.SplitHostPort(e.Address)
		if n, bad := strconv.Atoi(port); err != nil || host == "" || bad != nil || n < 1 || n > 65535 {
			r.Add(at+".address", strict.Quote(e.Address)+" is not a host and port", "write it like logs.example.org:4317", at+".kind")
		}
		if e.Transport == UDP && e.Kind == OTLP {
			r.Add(at+".transport", "gRPC needs TCP", "use tls or tcp", at+".kind")
		}
		if e.Secret != "" && e.Transport == TCP {
			r.Add(at+".transport", "the token would be sent without encryption", "use tls, or remove the secret", at+".secret")
		}
		if e.CA != "" && e.Transport != TLS {
			r.Add(at+".ca", "belongs to transport tls", "remove it", at+".transport")
		}
	case OTLPHTTP, S3:
		if e.Address == "" {
			r.Add(at, e.Kind+" needs the URL of its server", "give address", at+".kind")
			return
		}
		of.Web(r, at+".address", e.Address, "https://logs.example.org", "a server")
		if e.Kind == OTLPHTTP && e.Secret != "" && strings.HasPrefix(e.Address, "http://") {
			r.Add(at+".address", "the token would be sent without encryption", "use https, or remove the secret", at+".secret")
		}
		if e.Kind == S3 && (e.Bucket == "" || e.Secret == "") {
			r.Add(at, "s3 needs a bucket, and a Secret with its key", "give bucket and secret", at+".kind")
		}
	case File:
		if p := e.Path; path.Clean(p) != p || !strings.HasPrefix(p, "/var/log/") || strings.ContainsAny(p, "\"'\\\n\r\x00$*?[") ||
			slices.ContainsFunc([]string{"/var/log/pods", "/var/log/containers", "/var/log/journal"}, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") }) {
			r.Add(at+".path", strict.Quote(p)+" is not a directory of its own below /var/log", "write it like /var/log/opentelemetry")
		}
	}
}
