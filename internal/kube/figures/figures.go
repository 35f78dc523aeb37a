package figures

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// Place says where Prometheus is: the namespace, the value of the label app.kubernetes.io/name of its pods, and their port.
type Place struct{ Namespace, App, Port string }

// Figures are the figures of a cluster over a time range.
type Figures struct {
	Range   string    `json:"range"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Step    int       `json:"stepSeconds"`
	Source  string    `json:"source,omitempty"`  // the pod that answered
	Missing string    `json:"missing,omitempty"` // why the cluster has no figures, and what gives it some; empty: it has
	Charts  []Chart   `json:"charts"`
}

// Chart holds the values of one figure.
type Chart struct {
	ID      string   `json:"id"`
	Group   string   `json:"group"`
	Title   string   `json:"title"`
	Unit    Unit     `json:"unit"`
	Needs   string   `json:"needs,omitempty"` // the addon that measures it
	Series  []Series `json:"series"`
	More    bool     `json:"more,omitempty"`    // there are further series
	Problem string   `json:"problem,omitempty"` // why there are no values
}

// Series holds the values of one machine, verb, phase or namespace: one for each step, the first at Figures.From.
type Series struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"` // null: not known
}

// Bounds of Prometheus' answer to one query, and of the queries.
const (
	maxBody   = 2 << 20
	maxSeries = 500
	maxName   = 80               // bytes of a series' name
	perQuery  = 5 * time.Second  // Prometheus then cancels the query itself
	perPod    = 15 * time.Second // for all queries
	atOnce    = 3                // queries
)

// Of reads the figures from the first pod of Prometheus that answers, bounded by ctx.
func Of(ctx context.Context, c *kube.Client, at Place, ask Ask, now time.Time) (*Figures, error) {
	r, err := ask.Check()
	if err != nil {
		return nil, err
	}
	to := now.UTC().Truncate(r.Step()) // the values are the same until the next step
	f := &Figures{Range: r.Name, From: to.Add(-r.Long), To: to, Step: int(r.Step().Seconds()), Charts: []Chart{}}
	pods, err := podsOf(ctx, c, at)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		f.Missing = "The cluster has no Prometheus. Add " + at.App + ", " + nodeExporter + " and " + kubeStateMetrics + " to spec.addons of its document, and apply it."
		return f, nil
	}
	var last error
	for i := range pods {
		if why := kube.Trouble(&pods[i]); why != "" {
			if last == nil {
				last = fail.New(fail.NotReady, "pod %s of Prometheus is not ready: %s", pods[i].Name, words.Clip(why, 300)).At(c.Server()).Do("look at it: kubectl describe pod -n %s %s", at.Namespace, pods[i].Name)
			}
			continue
		}
		s := source{c: c, at: at, pod: pods[i].Name, r: r, from: f.From, to: f.To}
		charts, err := s.charts(ctx, ask.Machine)
		if err == nil {
			f.Source, f.Charts = s.pod, charts
			return f, nil
		}
		if last = err; ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// podsOf lists the pods of Prometheus by name, so that the same one answers while it can: another one may have started later.
func podsOf(ctx context.Context, c *kube.Client, at Place) ([]corev1.Pod, error) {
	const most = 10
	list, err := kube.Set(c).CoreV1().Pods(at.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + at.App, Limit: most})
	if err != nil {
		return nil, kube.APIError(ctx, err, "list the pods of %s", at.App).At(c.Server())
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods[:min(len(pods), most)], nil
}

// source is one pod of Prometheus, and the requested range.
type source struct {
	c        *kube.Client
	at       Place
	pod      string
	r        Range
	from, to time.Time
}

// errQuery is an error about one query: the pod answers others.
var errQuery = errors.New("of the query alone")

// charts asks the pod all queries. An error means that the pod does not answer.
func (s *source) charts(ctx context.Context, machine string) ([]Chart, error) {
	ctx, cancel := context.WithTimeout(ctx, perPod)
	defer cancel()
	var wanted []Query
	for _, q := range all {
		if machine == "" || q.OfMachines() {
			wanted = append(wanted, q)
		}
	}
	charts := make([]Chart, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, q := range wanted {
		g.Go(func() error {
			charts[i] = Chart{ID: q.ID, Group: q.Group, Title: q.Title, Unit: q.Unit, Needs: q.Needs, Series: []Series{}}
			series, more, err := s.ask(ctx, q, machine)
			switch {
			case errors.Is(err, errQuery):
				charts[i].Problem = words.Clip(strings.TrimSuffix(err.Error(), ": "+errQuery.Error()), 300)
			case err != nil:
				return err
			default:
				charts[i].Series, charts[i].More = series, more
			}
			return nil
		})
	}
	return charts, g.Wait()
}

// ask asks the pod one query.
func (s *source) ask(ctx context.Context, q Query, machine string) (series []Series, more bool, err error) {
	args := url.Values{"query": {q.promql(s.r, machine)}, "start": {strconv.FormatInt(s.from.Unix(), 10)}, "end": {strconv.FormatInt(s.to.Unix(), 10)},
		"step": {strconv.Itoa(int(s.r.Step().Seconds()))}, "timeout": {perQuery.String()}, "limit": {strconv.Itoa(maxSeries + 1)}}
	a, err := kube.AskPod(ctx, s.c, s.at.Namespace, s.pod, s.at.Port, "api/v1/query_range", args, maxBody)
	if fail.KindOf(err) == fail.Refused {
		return nil, false, fmt.Errorf("%w: %w", err, errQuery)
	}
	if err != nil {
		return nil, false, err
	}
	return s.read(q, a)
}
