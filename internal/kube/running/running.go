// Package running lists the workloads of a cluster and reads the logs of its containers, without changing anything.
//
// Each answer has a bounded size, however much the cluster holds. All texts are untrusted and come without control characters. The package knows
// neither documents nor pages.
package running

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Ask says which workloads to list.
type Ask struct {
	Kind      string `json:"kind,omitempty" enum:"pods,deployments,statefulsets,daemonsets,jobs" doc:"What to list; empty: pods"`
	Namespace string `json:"namespace,omitempty" maxLength:"63" doc:"Only of this namespace; empty: of all"`
	Selector  string `json:"selector,omitempty" maxLength:"1000" doc:"Only with these labels, as kubectl -l takes them"`
	NotReady  bool   `json:"notReady,omitempty" doc:"Only objects that are not ready"`
	Continue  string `json:"continue,omitempty" maxLength:"4096" doc:"The continue of the former answer, for what follows it"`
}

// List is one page of a list of workloads.
type List struct {
	Kind     string     `json:"kind"`
	Items    []Workload `json:"items"`
	Continue string     `json:"continue,omitempty"` // for the next page; empty: this is the last one
	Read     int        `json:"read"`               // number of objects read for this page
}

// Workload is a pod, or a controller of pods.
type Workload struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	State      string    `json:"state"`           // "Running", "CrashLoopBackOff", "complete"
	OK         bool      `json:"ok"`              // it is in its intended state
	Why        string    `json:"why,omitempty"`   // why it is not, in the words of kubelet, the scheduler or a controller
	Ready      string    `json:"ready,omitempty"` // "2 of 3"
	Restarts   int       `json:"restarts"`        // of a pod's containers
	Created    time.Time `json:"created"`
	Node       string    `json:"node,omitempty"`
	Images     []string  `json:"images"`
	Containers []string  `json:"containers,omitempty"` // of a pod: containers with a log
	Selector   string    `json:"selector,omitempty"`   // of the controller's pods
}

// The kinds of workloads.
const (
	Pods         = "pods"
	Deployments  = "deployments"
	StatefulSets = "statefulsets"
	DaemonSets   = "daemonsets"
	Jobs         = "jobs"
)

// Kinds lists the kinds of workloads, the usual one first.
func Kinds() []string { return []string{Pods, Deployments, StatefulSets, DaemonSets, Jobs} }

// Bounds of one answer.
const (
	inPage      = 100
	objectsRead = 500 // in one request with NotReady
	maxRequests = 20  // of so many
	maxText     = 300
	maxImages   = 4
	maxNames    = 20 // containers of a pod
	maxContinue = 4096
)

// name is the form of names of namespaces, pods and containers.
var name = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// Check returns fail.Invalid for an impossible request.
func (a Ask) Check() error {
	switch {
	case a.Kind != "" && !slices.Contains(Kinds(), a.Kind):
		return fail.New(fail.Invalid, "%.20q can't be listed", a.Kind).Do("take %s", strings.Join(Kinds(), ", "))
	case a.Namespace != "" && !name.MatchString(a.Namespace):
		return fail.New(fail.Invalid, "%.63q is no name of a namespace", a.Namespace)
	case len(a.Continue) > maxContinue:
		return fail.New(fail.Invalid, "the place to continue at has %d bytes", len(a.Continue))
	}
	if _, err := labels.Parse(a.Selector); err != nil || len(a.Selector) > 1000 {
		return fail.New(fail.Invalid, "%.100q is no selector of labels", a.Selector)
	}
	return nil
}

// page is one page of objects from the API.
type page struct {
	items []Workload
	next  string
}

// Of lists one page of workloads. With NotReady it looks at further objects until the page is full, up to a bound.
func Of(ctx context.Context, c *kube.Client, ask Ask) (*List, error) {
	if err := ask.Check(); err != nil {
		return nil, err
	}
	if ask.Kind == "" {
		ask.Kind = Pods
	}
	out := &List{Kind: ask.Kind, Items: []Workload{}}
	o := metav1.ListOptions{LabelSelector: ask.Selector, Limit: inPage, Continue: ask.Continue}
	for n := 1; ; n++ {
		if ask.NotReady {
			o.Limit = objectsRead
		}
		p, err := read(ctx, c, ask, o)
		if err != nil {
			return nil, kube.APIError(ctx, err, "list %s", ask.Kind).At(c.Server())
		}
		out.Read += len(p.items)
		for i := range p.items {
			if !ask.NotReady || !p.items[i].OK {
				out.Items = append(out.Items, p.items[i])
			}
		}
		out.Continue = p.next
		switch {
		case p.next == "" || p.next == o.Continue || len(p.next) > maxContinue:
			out.Continue = ""
			return out, nil
		case !ask.NotReady || len(out.Items) >= inPage || n == maxRequests:
			return out, nil
		}
		o.Continue = p.next
	}
}

// clean makes an untrusted text fit on one line.
func clean(s string) string { return words.Clip(strings.TrimSpace(s), maxText) }

// cleaned makes the first texts of a list fit on one line.
func cleaned(all []string, most int) []string {
	out := []string{}
	for _, s := range all[:min(len(all), most)] {
		out = append(out, clean(s))
	}
	return out
}
