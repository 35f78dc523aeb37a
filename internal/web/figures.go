package web

import (
	"context"
	"net/http"

	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/web/charts"
)

// figuresData is the data of the charts of a cluster or of a machine.
type figuresData struct {
	Ranges   []link
	Later    string // address of the charts, which the browser requests afterwards; empty: they are here
	Every    int    // seconds after which the charts have a new value
	Problem  string // why there are no charts
	Missing  string // what the cluster lacks
	Span     string // the times that the charts show
	Source   string // pod that measured them
	Cluster  string
	Groups   []charts.Group
	Machines []charts.Machine // on this page of the list; empty on the page of a machine
	Paging   paging
}

// figuresFunc returns a cluster's figures to an operator.
type figuresFunc func(ctx context.Context, p *Pages, who *access.Operator, name string, ask figures.Ask) (*figures.Figures, error)

// askFigures asks the cluster's Prometheus.
func askFigures(ctx context.Context, p *Pages, who *access.Operator, name string, ask figures.Ask) (*figures.Figures, error) {
	return lookAt(ctx, p, who, name, func(s *operate.Session) (*figures.Figures, error) { return operate.Figures.See(ctx, s, ask) })
}

// figuresOf returns the charts of a cluster or of one machine if the request has ?look; otherwise it returns the address from which the browser requests them, so that the page
// appears without waiting for the cluster.
func figuresOf(p *Pages, r *http.Request, who *access.Operator, cluster, machine string) (*figuresData, error) {
	ask := figures.Ask{Range: r.URL.Query().Get("range"), Machine: machine}
	is, err := ask.Check()
	if err != nil {
		return nil, err
	}
	d := &figuresData{Cluster: cluster, Every: int(is.Step().Seconds())}
	for _, each := range figures.Ranges() {
		d.Ranges = append(d.Ranges, link{Href: r.URL.Path + "?range=" + each.Name, Text: each.Text, Here: each.Name == is.Name})
	}
	if r.URL.Query().Get("look") == "" {
		q := r.URL.Query()
		q.Set("look", "yes")
		d.Later = r.URL.Path + "?" + q.Encode()
		return d, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), looking)
	defer cancel()
	f, err := p.figures(ctx, p, who, cluster, ask)
	if err != nil {
		d.Problem = who.Told(err).Error()
		return d, nil
	}
	d.Missing, d.Span, d.Source, d.Groups = f.Missing, charts.Span(f), f.Source, charts.Of(f)
	if machine == "" {
		d.Machines, d.Paging = pageOf(r, charts.Machines(f), inPage)
	}
	return d, nil
}

func figuresTab(p *Pages, r *http.Request, who *access.Operator, c *store.Cluster, d *clusterData) (_ string, err error) {
	d.Figures, err = figuresOf(p, r, who, c.Name, "")
	d.Status = nil // it must not make this page change
	return "naupegos top " + quote(c.Name), err
}
