package monitoring

import (
	"fmt"
	"maps"
	"net"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
)

// maxResolution is the maximum interval of metrics-server. The minimum is that of all durations, 10 s, at which kubelets measure.
const maxResolution = 5 * time.Minute

// Check reports invalid settings.
func (m *MetricsServer) Check(r *strict.Findings, field string) {
	if m.Resolution.Duration > maxResolution {
		r.Add(field+".resolution", m.Resolution.String()+" is longer than 5m", "")
	}
}

// labelName matches the names of labels of metrics and alerts that every receiver understands.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,99}$`)

// longestInterval is the longest interval between two readings of a target: Prometheus takes values of the last five minutes for the present ones.
const longestInterval = 2 * time.Minute

// WebAddress checks the URL of something, which holds no credentials.
type WebAddress func(r *strict.Findings, at, address, example, what string)

// Check reports invalid settings.
func (p *Prometheus) Check(r *strict.Findings, field string, web WebAddress) {
	checkSize(r, field+".memory", p.Memory, "128Mi")
	if s := p.Storage; s != nil {
		checkSize(r, field+".storage.size", s.Size, "1Gi")
		checkName(r, field+".storage.storageClass", s.StorageClass, "a StorageClass")
	}
	if p.ScrapeInterval.Duration > longestInterval {
		r.Add(field+".scrapeInterval", p.ScrapeInterval.String()+" is longer than 2m", "")
	}
	checkLabels(r, field+".externalLabels", p.ExternalLabels, "cluster", "replica") // Naupegos sets these
	for i, w := range p.RemoteWrite {
		web(r, strict.Item(field+".remoteWrite", i)+".url", w.URL, "https://metrics.example.org/api/v1/push", "a server of metrics")
		checkName(r, strict.Item(field+".remoteWrite", i)+".secret", w.Secret, "a Secret")
	}
	checkName(r, field+".alertmanagerSecret", p.AlertmanagerSecret, "a Secret")
	if p.AlertmanagerSecret != "" && len(p.Receivers) > 0 {
		r.Add(field+".alertmanagerSecret", "is a configuration of its own, and receivers are given too", "give one of them", field+".receivers")
	}
	for i, v := range p.Receivers {
		at := strict.Item(field+".receivers", i)
		if first := slices.IndexFunc(p.Receivers, func(o AlertReceiver) bool { return o.Name == v.Name }); first < i && v.Name != "" {
			r.Add(at+".name", fmt.Sprintf("receiver %s is already listed, at receivers[%d]", strict.Quote(v.Name), first), "take another name")
		}
		v.check(r, at, web)
	}
}

func (v AlertReceiver) check(r *strict.Findings, at string, web WebAddress) {
	checkLabels(r, at+".match", v.Match)
	checkName(r, at+".name", v.Name, "a receiver")
	checkName(r, at+".secret", v.Secret, "a Secret")
	web(r, at+".url", v.URL, "https://hook.example.org/alerts", "a webhook")
	for _, f := range []struct {
		key, kind string
		given     bool
	}{{"url", "webhook", v.URL != ""}, {"channel", "slack", v.Channel != ""}, {"email", "email", v.Email != nil}} {
		if f.given && f.kind != v.Kind {
			r.Add(at+"."+f.key, "belongs to kind "+f.kind, "remove it", at+".kind")
		}
	}
	switch {
	case v.URL != "" && v.Secret != "":
		r.Add(at+".secret", "holds the address of the webhook, and url is given too", "give one of them", at+".url")
	case v.Kind == "email" && v.Email == nil:
		r.Add(at, "email needs a mail server and addresses", "give email.server, email.from and email.to", at+".kind")
	case v.Kind != "email" && v.Secret == "" && v.URL == "":
		r.Add(at, v.Kind+" needs its address or key", "write it into a Secret of the namespace prometheus, and name that: secret", at+".kind")
	case v.Email != nil && (v.Email.User == "") != (v.Secret == ""):
		r.Add(at+".email", "the user and the Secret with the password belong together", "give email.user and secret, or neither")
	}
	if v.Email == nil {
		return
	}
	if host, port, err := net.SplitHostPort(v.Email.Server); v.Email.Server != "" && (err != nil || host == "" || port == "") {
		r.Add(at+".email.server", strict.Quote(v.Email.Server)+" is not a host and port", "write it like mail.example.org:587")
	}
	for i, a := range append([]string{v.Email.From}, v.Email.To...) {
		where := at + ".email.from"
		if i > 0 {
			where = strict.Item(at+".email.to", i-1)
		}
		if m, err := mail.ParseAddress(a); a != "" && (err != nil || m.Address != a) {
			r.Add(where, strict.Quote(a)+" is not an address of mail", "write it like ops@example.org")
		}
	}
}

func checkLabels(r *strict.Findings, field string, labels map[string]string, reserved ...string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		at := field + "[" + strict.Clip(name) + "]"
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			r.Add(at, strict.Quote(name)+" is not the name of a label", "use letters, digits and _")
		case slices.Contains(reserved, name):
			r.Add(at, name+" is set by Naupegos", "take another name")
		case len(labels[name]) > 200 || strings.ContainsFunc(labels[name], func(c rune) bool { return !unicode.IsPrint(c) }):
			r.Add(at, strict.Quote(labels[name])+" is not the value of a label", "take at most 200 printable characters")
		}
	}
}

// checkName requires the name of an object, unless it is empty.
func checkName(r *strict.Findings, at, name, what string) {
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		r.Add(at, strict.Quote(name)+" is not the name of "+what, "write it in lower case, with digits, - and .")
	}
}

// checkSize requires a quantity of bytes of at least the given one, unless it is empty.
func checkSize(r *strict.Findings, at, text, least string) {
	if q, err := resource.ParseQuantity(text); text != "" && (err != nil || q.Cmp(resource.MustParse(least)) < 0) {
		r.Add(at, strict.Quote(text)+" is not a size of at least "+least, "write it like 20Gi")
	}
}
