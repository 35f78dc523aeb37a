package turns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// measure writes the metrics that Prometheus' node exporter reads from files; failed is the error of this run.
func (r *run) measure(failed error) error {
	if r.set.Metrics == "" {
		return nil
	}
	var b strings.Builder
	metric := func(name, help string, value float64) {
		fmt.Fprintf(&b, "# HELP naupegos_backup_%s %s\n# TYPE naupegos_backup_%s gauge\nnaupegos_backup_%s{cluster=%q} %v\n", name, help, name, name, r.set.Cluster, value)
	}
	ended := 0.0
	if failed != nil {
		ended = 1
	}
	metric("failed", "1 where this machine's last run has found no backup of its turn, and could make none.", ended)
	metric("turn_timestamp_seconds", "The time of the schedule that this machine has looked at last.", float64(r.turn.Unix()))
	metric("next_timestamp_seconds", "The time of the schedule that comes next.", float64(r.schedule.Next(r.turn).Unix()))
	if !r.done.At.IsZero() {
		metric("last_success_timestamp_seconds", "When the last backup on schedule was made, by whatever machine.", float64(r.done.At.Unix()))
		metric("last_duration_seconds", "How long it took.", r.done.Seconds)
		metric("last_bytes", "Its size.", float64(r.done.Bytes))
		metric("last_keys", "How many keys of Kubernetes are in it.", float64(r.done.Keys))
	}
	return r.publish([]byte(b.String()))
}

// publish atomically replaces the file, readable by all users.
func (r *run) publish(text []byte) error {
	dir := filepath.Dir(r.set.Metrics)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fail.Wrap(fail.Refused, err, "write metrics")
	}
	part := r.set.Metrics + ".part"
	err := os.WriteFile(part, text, 0o644)
	if err == nil {
		err = os.Rename(part, r.set.Metrics)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write metrics").At(r.set.Metrics)
	}
	return nil
}
