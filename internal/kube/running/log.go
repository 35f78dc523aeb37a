package running

import (
	"bytes"
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// LogOf names the log of a container.
type LogOf struct {
	Namespace string `json:"namespace" maxLength:"63"`
	Pod       string `json:"pod" maxLength:"253"`
	Container string `json:"container,omitempty" maxLength:"63" doc:"Empty: the only one"`
	Lines     int    `json:"lines,omitempty" minimum:"0" maximum:"2000" doc:"How many of the last lines; 0: 200"`
	Previous  bool   `json:"previous,omitempty" doc:"Of the container that ran before the last restart"`
}

// Log holds the last lines of a container's log.
type Log struct {
	Text string `json:"text"`
	Cut  bool   `json:"cut,omitempty"` // the lines were too long: the first ones are missing
}

// Bounds of a log: the bytes to read, and the last bytes to keep.
const (
	usualLines = 200
	maxLines   = 2000
	maxRead    = 4 << 20
	maxLog     = 64 << 10
)

// Check returns fail.Invalid for an impossible request.
func (of LogOf) Check() error {
	for _, n := range []string{of.Namespace, of.Pod, of.Container} {
		if n != "" && !name.MatchString(n) {
			return fail.New(fail.Invalid, "%.63q names no namespace, pod or container", n)
		}
	}
	if of.Namespace == "" || of.Pod == "" || of.Lines < 0 || of.Lines > maxLines {
		return fail.New(fail.Invalid, "a log needs a namespace, a pod, and at most %d lines", maxLines)
	}
	return nil
}

// LogFrom reads the last lines of a log, with their times. A log may contain anything that its program wrote, including secrets.
func LogFrom(ctx context.Context, c *kube.Client, of LogOf) (*Log, error) {
	if err := of.Check(); err != nil {
		return nil, err
	}
	if of.Lines == 0 {
		of.Lines = usualLines
	}
	lines, limit := int64(of.Lines), int64(maxRead)
	body, err := kube.Set(c).CoreV1().Pods(of.Namespace).GetLogs(of.Pod, &corev1.PodLogOptions{Container: of.Container, Previous: of.Previous, TailLines: &lines, LimitBytes: &limit, Timestamps: true}).Stream(ctx)
	if err != nil {
		return nil, kube.APIError(ctx, err, "read the log of pod %s", of.Pod).At(c.Server())
	}
	defer body.Close() // read only
	raw, err := io.ReadAll(io.LimitReader(body, maxRead))
	if err != nil {
		return nil, kube.APIError(ctx, err, "read the log of pod %s", of.Pod).At(c.Server())
	}
	out := &Log{Cut: len(raw) == maxRead}
	if len(raw) > maxLog {
		raw = raw[len(raw)-maxLog:]
		if i := bytes.IndexByte(raw, '\n'); i >= 0 { // the rest of a line says nothing
			raw = raw[i+1:]
		}
		out.Cut = true
	}
	out.Text = words.Text(string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))))
	return out, nil
}
