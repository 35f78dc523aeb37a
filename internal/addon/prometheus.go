package addon

import (
	"cmp"
	_ "embed" // for the configuration
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/monitoring"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// PrometheusNamespace is the namespace of the addon prometheus, which also has the Secrets that the document names.
const PrometheusNamespace = "prometheus"

// The pods of the addon prometheus: the values of their label app.kubernetes.io/name, and their ports.
const (
	PrometheusApp    = "prometheus"
	PrometheusPort   = "9090"
	AlertmanagerApp  = "alertmanager"
	AlertmanagerPort = "9093"
)

var (
	//go:embed manifests/prometheus.yaml
	prometheusManifest string
	//go:embed manifests/prometheus/prometheus.yml
	prometheusConfig string
	//go:embed manifests/prometheus/rules.yml
	prometheusRules string
)

// Names in the configuration.
const (
	secretsPlace = "/etc/secrets/"    //nolint:gosec // a path
	extraName    = "prometheus-extra" // of the user's ConfigMap with rules and targets, and of the Secret that these may refer to
	nowhere      = "nowhere"          // the receiver that sends nothing
)

// Limits of readings, of data that is lost with the pod, and of what each Alertmanager knows.
const (
	maxTimeout       = 10 * time.Second // of a reading
	ephemeralRoom    = "8Gi"
	alertmanagerRoom = "256Mi"
	alertmanagerSize = "1Gi"
)

// monitor is a pod of the addon prometheus, for its manifest. It is a StatefulSet of its own, so that its volume can grow.
type monitor struct {
	App, Name, Service, Image, Port, CPU, Memory string
	Limit                                        string // of memory; empty: none
	Claim, StorageClass                          string // size and class of the volume; empty: none, and the default
	Room                                         string // limit of the data without a volume
	Args                                         []string
	Second, Extra, Gossip                        bool
	ConfigSecret                                 string // instead of the ConfigMap
	Secrets                                      []mounted
}

// mounted is a Secret that a container reads. Names of Secrets may be longer than those of volumes.
type mounted struct {
	Index int
	Name  string
}

// letters tell the pods apart.
func letters(p *monitoring.Prometheus) []string { return []string{"a", "b"}[:p.Replicas] }

func prometheus(in Input, a v1alpha1.Addon) ([]byte, error) {
	server, err := image(in.Bundle, catalogue.Prometheus, a.Name)
	if err != nil {
		return nil, err
	}
	manager, err := image(in.Bundle, catalogue.ImageAlertmanager, a.Name)
	if err != nil {
		return nil, err
	}
	p := a.Prometheus
	config, err := prometheusConfiguration(in.Doc.Metadata.Name, p)
	if err != nil {
		return nil, err
	}
	alerts := ""
	if p.AlertmanagerSecret == "" {
		if alerts, err = alertmanagerConfiguration(p.Receivers); err != nil {
			return nil, err
		}
	}
	var pods []monitor
	for i, letter := range letters(p) {
		pods = append(pods, prometheusPod(p, server, letter, i > 0), alertmanagerPod(p, manager, letter, i > 0))
	}
	return render(a.Name, prometheusManifest, map[string]any{"Config": indented(config), "Rules": indented(prometheusRules), "Alertmanager": indented(alerts), "Pods": pods})
}

func prometheusPod(p *monitoring.Prometheus, image, letter string, second bool) monitor {
	m := monitor{App: PrometheusApp, Name: PrometheusApp + "-" + letter, Service: PrometheusApp, Image: image, Port: PrometheusPort, CPU: "100m", Memory: "256Mi", Room: ephemeralRoom,
		Second: second, Extra: true, Args: []string{"--config.file=/etc/prometheus/prometheus.yml", "--config.auto-reload", "--config.auto-reload-interval=15s", "--storage.tsdb.path=/data/metrics"}}
	if p.Memory != "" {
		m.Memory, m.Limit = p.Memory, p.Memory
	}
	if s := p.Storage; s != nil {
		m.Claim, m.StorageClass = s.Size, s.StorageClass
	}
	names := []string{extraName}
	for _, w := range p.RemoteWrite {
		names = append(names, w.Secret)
	}
	m.Secrets = mounts(names)
	return m
}

func alertmanagerPod(p *monitoring.Prometheus, image, letter string, second bool) monitor {
	m := monitor{App: AlertmanagerApp, Name: AlertmanagerApp + "-" + letter, Service: AlertmanagerApp + "-peers", Image: image, Port: AlertmanagerPort, CPU: "10m", Memory: "64Mi", Room: alertmanagerRoom,
		Second: second, Gossip: p.Replicas > 1, ConfigSecret: p.AlertmanagerSecret, Args: []string{"--config.file=/etc/alertmanager/alertmanager.yml", "--storage.path=/data"}}
	if s := p.Storage; s != nil {
		m.Claim, m.StorageClass = alertmanagerSize, s.StorageClass
	}
	if !m.Gossip {
		m.Args = append(m.Args, "--cluster.listen-address=")
	} else {
		m.Args = append(m.Args, "--cluster.listen-address=0.0.0.0:9094", "--cluster.advertise-address=$(POD_IP):9094")
		for _, l := range letters(p) {
			m.Args = append(m.Args, "--cluster.peer="+alertmanagerHost(l)+":9094")
		}
	}
	var names []string
	for _, r := range p.Receivers {
		names = append(names, r.Secret)
	}
	m.Secrets = mounts(names)
	return m
}

// alertmanagerHost returns the name of a pod in the cluster's DNS, as pods of the namespace find it.
func alertmanagerHost(letter string) string {
	return AlertmanagerApp + "-" + letter + "-0." + AlertmanagerApp + "-peers"
}

// mounts returns each Secret once; empty names are none.
func mounts(names []string) (out []mounted) {
	for i, name := range slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(names, func(n string) bool { return n == "" })))) {
		out = append(out, mounted{i, name})
	}
	return out
}

// indented returns a text as the content of a block in a ConfigMap's data.
func indented(text string) string {
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// prometheusConfiguration renders prometheus.yml. Values of the document are in it as JSON, which is YAML too.
func prometheusConfiguration(cluster string, p *monitoring.Prometheus) (string, error) {
	// Prometheus replaces variables in these labels alone.
	labels := map[string]string{"cluster": cluster, "replica": "${POD_NAME}"}
	for name, value := range p.ExternalLabels {
		labels[name] = strings.ReplaceAll(value, "$", "$$")
	}
	room := ephemeralRoom
	if p.Storage != nil {
		room = p.Storage.Size
	}
	size, err := resource.ParseQuantity(room)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the size of the volumes of %s", PrometheusApp)
	}
	var managers []string
	for _, l := range letters(p) {
		managers = append(managers, alertmanagerHost(l)+":"+AlertmanagerPort)
	}
	data := map[string]any{"Interval": p.ScrapeInterval.String(), "Timeout": min(p.ScrapeInterval.Duration, maxTimeout).String(),
		"Days": p.RetentionDays, "Size": strconv.FormatInt(size.Value()/5*4>>20, 10) + "M"}
	for name, value := range map[string]any{"Labels": labels, "Alertmanagers": managers, "RemoteWrite": remoteWrites(p.RemoteWrite)} {
		text, err := json.Marshal(value)
		if err != nil {
			return "", fail.Wrap(fail.Internal, err, "render the configuration of %s", PrometheusApp)
		}
		data[name] = string(text)
	}
	out, err := render(PrometheusApp, prometheusConfig, data)
	return string(out), err
}

func remoteWrites(all []monitoring.RemoteWrite) []map[string]any {
	out := []map[string]any{}
	for _, w := range all {
		to := map[string]any{"url": w.URL}
		at := secretsPlace + w.Secret + "/"
		switch {
		case w.Secret == "":
		case w.Auth == "basic":
			to["basic_auth"] = map[string]string{"username_file": at + "username", "password_file": at + "password"}
		default:
			to["authorization"] = map[string]string{"credentials_file": at + "token"}
		}
		out = append(out, to)
	}
	return out
}

// integrations are the names of kinds of receivers that Alertmanager calls otherwise.
var integrations = map[string]string{"teams": "msteamsv2"}

// alertmanagerConfiguration renders alertmanager.yml. Each receiver gets every alert that has its labels.
func alertmanagerConfiguration(all []monitoring.AlertReceiver) (string, error) {
	receivers := []map[string]any{{"name": nowhere}}
	routes := []map[string]any{}
	for _, r := range all {
		name := "to-" + r.Name // none is called nowhere
		receivers = append(receivers, map[string]any{"name": name, cmp.Or(integrations[r.Kind], r.Kind) + "_configs": []any{receiverOf(r)}})
		route := map[string]any{"receiver": name, "continue": true}
		var matchers []string
		for _, label := range slices.Sorted(maps.Keys(r.Match)) {
			matchers = append(matchers, label+"="+strconv.Quote(r.Match[label]))
		}
		if len(matchers) > 0 {
			route["matchers"] = matchers
		}
		routes = append(routes, route)
	}
	text, err := yaml.Marshal(map[string]any{
		"route": map[string]any{"receiver": nowhere, "group_by": []string{"alertname", "namespace", "node"}, "group_wait": "10s", "group_interval": "5m", "repeat_interval": "12h", "routes": routes},
		// A critical alert speaks for the warning of the same name.
		"inhibit_rules": []any{map[string]any{"source_matchers": []string{`severity="critical"`}, "target_matchers": []string{`severity="warning"`}, "equal": []string{"alertname", "namespace", "node"}}},
		"receivers":     receivers,
	})
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "render the configuration of %s", AlertmanagerApp)
	}
	return string(text), nil
}

// receiverOf renders the settings of one receiver.
func receiverOf(r monitoring.AlertReceiver) map[string]any {
	at := secretsPlace + r.Secret + "/"
	out := map[string]any{"send_resolved": true}
	switch {
	case r.URL != "":
		out["url"] = r.URL
	case r.Kind == "webhook":
		out["url_file"] = at + "url"
	case r.Kind == "slack":
		out["api_url_file"] = at + "url"
	case r.Kind == "teams":
		out["webhook_url_file"] = at + "url"
	case r.Kind == "pagerduty":
		out["routing_key_file"] = at + "routingKey"
	case r.Kind == "email":
		out["to"], out["from"], out["smarthost"], out["require_tls"] = strings.Join(r.Email.To, ", "), r.Email.From, r.Email.Server, true
		if r.Email.User != "" {
			out["auth_username"], out["auth_password_file"] = r.Email.User, at+"password"
		}
	}
	if r.Channel != "" {
		out["channel"] = r.Channel
	}
	return out
}
