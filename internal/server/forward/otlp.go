package forward

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
	"github.com/naupegos/naupegos/internal/store"
)

// otlp sends log records of OpenTelemetry: JSON over HTTP.
type otlp struct {
	url    string
	client *http.Client
}

func newOTLP(u *url.URL) *otlp {
	at := *u
	at.Scheme = strings.TrimPrefix(u.Scheme, "otlp+")
	if strings.Trim(at.Path, "/") == "" {
		at.Path = "/v1/logs"
	}
	return &otlp{at.String(), &http.Client{Transport: scheme.Watch(http.DefaultTransport.(*http.Transport)), Timeout: sending, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

type (
	text struct {
		StringValue string `json:"stringValue"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value text   `json:"value"`
	}
	logRecord struct {
		Time         string     `json:"timeUnixNano"`
		SeverityText string     `json:"severityText"`
		Severity     int        `json:"severityNumber"`
		Body         text       `json:"body"`
		Attributes   []keyValue `json:"attributes"`
	}
)

// record returns the OTLP log record of an entry.
func record(e *store.AuditEntry) logRecord {
	r := logRecord{Time: strconv.FormatInt(e.At.UnixNano(), 10), SeverityText: "INFO", Severity: 9, Body: text{e.Who + ": " + e.Action + ": " + e.Outcome}}
	if e.Outcome != "done" && e.Outcome != "begun" {
		r.SeverityText, r.Severity = "WARN", 13
	}
	for _, f := range fields(e) {
		r.Attributes = append(r.Attributes, keyValue{"naupegos.audit." + f[0], text{f[1]}})
	}
	return r
}

func (o *otlp) send(ctx context.Context, all []store.AuditEntry) error {
	records := make([]logRecord, 0, len(all))
	for i := range all {
		records = append(records, record(&all[i]))
	}
	body, err := json.Marshal(map[string]any{"resourceLogs": []any{map[string]any{
		"resource":  map[string]any{"attributes": []keyValue{{"service.name", text{"naupegos"}}}},
		"scopeLogs": []any{map[string]any{"scope": map[string]string{"name": "naupegos.audit"}, "logRecords": records}},
	}}})
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encode the audit for OTLP")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "send the audit").At(o.url)
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	res, err := o.client.Do(req)
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "send the audit, after %s", time.Since(began).Round(time.Millisecond)).At(o.url)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return fail.Wrap(fail.Unreachable, err, "read the answer").At(o.url)
	}
	if res.StatusCode/100 != 2 {
		return fail.New(fail.Unreachable, "the collector answered %s", res.Status).At(o.url)
	}
	return nil
}
