package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/watch"
)

// clusterColumns returns the columns of the list of clusters.
func clusterColumns() []column[clusterRow] {
	return []column[clusterRow]{
		{Text: "Cluster", By: "name", Compare: compared(func(c *clusterRow) string { return c.Name })},
		{Text: "State", By: "state", Compare: compared(func(c *clusterRow) int { return slices.Index(bad, c.Health.State) })},
		{Text: "Kubernetes", By: "kubernetes", Compare: func(a, b *clusterRow) int { return byNumbers(a.Kubernetes, b.Kubernetes) }},
		{Text: "Members", By: "members", Falls: true, Compare: compared(func(c *clusterRow) int { return c.Health.Summary.Nodes.Wanted })},
		{Text: "Backup", By: "backup", Falls: true, Compare: func(a, b *clusterRow) int { return a.Health.Summary.Backup.Compare(b.Health.Summary.Backup) }},
		{Text: "Certificates", By: "certificate", Compare: func(a, b *clusterRow) int { return a.Health.Summary.Certificate.Compare(b.Health.Summary.Certificate) }},
		{Text: "Running", By: "running", Falls: true, Compare: compared((*clusterRow).does)},
		{Text: "Last run", By: "run", Falls: true, Compare: func(a, b *clusterRow) int { return a.last().Started.Compare(b.last().Started) }},
	}
}

// bad lists the states, the worst first.
var bad = []string{watch.Unhealthy, watch.Unknown, watch.Drifted, watch.Healthy}

// choice is a select element among the filters.
type choice struct {
	Name, Label, Now string
	Options          []string
}

// clustersData is the data of the list of clusters.
type clustersData struct {
	Rows        []clusterRow
	Heads       []head
	Total       int
	Text, Order string
	Choices     []choice
	Matching    int
	Paging      paging
	MayCreate   bool
}

// clustersInPage is the number of clusters on a page.
const clustersInPage = 50

// clustersPage lists the clusters of the store with their last known state.
func (p *Pages) clustersPage(r *http.Request, who *access.Operator) (*view, error) {
	f, err := p.fleet(r.Context(), who)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	d := clustersData{Total: len(f.Rows), Text: strings.TrimSpace(q.Get("text")), Order: q.Get("order"), MayCreate: who.Cluster == "" && who.May(server.Operate, "") == nil}
	filters := []struct {
		name, label string
		of          func(c *clusterRow) string
	}{
		{"state", "State", func(c *clusterRow) string { return c.Health.State }}, {"provider", "Provider", func(c *clusterRow) string { return c.Provider }},
		{"kubernetes", "Kubernetes", func(c *clusterRow) string { return c.Kubernetes }},
	}
	for _, by := range filters {
		c := choice{Name: by.name, Label: by.label, Now: q.Get(by.name)}
		for i := range f.Rows {
			if v := by.of(&f.Rows[i]); v != "" && !slices.Contains(c.Options, v) {
				c.Options = append(c.Options, v)
			}
		}
		if c.Now != "" && !slices.Contains(c.Options, c.Now) {
			c.Options = append(c.Options, c.Now)
		}
		slices.SortFunc(c.Options, byNumbers)
		d.Choices = append(d.Choices, c)
	}
	for i := range f.Rows {
		row := &f.Rows[i]
		keep := d.Text == "" || strings.Contains(row.Name, d.Text)
		for _, by := range filters {
			want := q.Get(by.name)
			keep = keep && (want == "" || by.of(row) == want)
		}
		if keep {
			d.Rows = append(d.Rows, *row)
		}
	}
	order := orderOf(r.URL, "name", clusterColumns())
	arrange(d.Rows, order, clusterColumns())
	d.Matching = len(d.Rows)
	d.Rows, d.Paging = pageOf(r, d.Rows, clustersInPage)
	d.Heads = headsOf(r.URL, order, clusterColumns())
	return &view{name: "clusters", Title: "Clusters", Command: "naupegos status", Live: liveOf(r), Data: d}, nil
}
