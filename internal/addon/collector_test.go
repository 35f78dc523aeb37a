package addon

import (
	"slices"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/telemetry"
)

// TestCollectorSinks: apply waits for the signals that every cluster sends, and for the programs even without one.
func TestCollectorSinks(t *testing.T) {
	sent := []CollectorSink{{CollectorNode, "syslog/siem", "log_records"}}
	for _, c := range []struct {
		collect, priority string
		want              []CollectorSink
		workload          string
	}{
		{"[pod-logs]", "crit", sent, CollectorNode},
		{"[machine-logs]", "info", sent, CollectorNode},
		{"[machine-logs]", "warning", nil, CollectorNode},
		{"[events]", "warning", []CollectorSink{{CollectorEvents, "syslog/siem", "log_records"}}, CollectorEvents},
	} {
		doc := siteDocument(t, "[{name: opentelemetry-collector, opentelemetryCollector: {collect: "+c.collect+", journalPriority: "+c.priority+
			", exporters: [{name: siem, kind: syslog, address: 'siem.example.org:6514'}]}}]")
		a := doc.Spec.Addons[0]
		if got := CollectorSinks(a.OpenTelemetryCollector); !slices.Equal(got, c.want) {
			t.Errorf("%s from %s: %v", c.collect, c.priority, got)
		}
		if got := Site(doc)[0].Workloads; len(got) != 1 || got[0].Name != c.workload {
			t.Errorf("%s: workloads %v", c.collect, got)
		}
	}
}

// TestCollectorWaits: a full queue stops the reading. Without that, receivers repeat a batch for all exporters when one of them refuses it.
func TestCollectorWaits(t *testing.T) {
	for _, kind := range []string{telemetry.OTLP, telemetry.OTLPHTTP, telemetry.Syslog, telemetry.S3} {
		queue := exporterConfig(telemetry.TelemetryExporter{Name: "a", Kind: kind})["sending_queue"].(fields)
		if queue["block_on_overflow"] != true || queue["storage"] != "file_storage" {
			t.Errorf("%s: %v", kind, queue)
		}
	}
}
