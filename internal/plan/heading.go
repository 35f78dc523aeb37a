package plan

import (
	"cmp"
	"strings"
)

// Heading returns the plan's title with its cluster, in the order of the command line: "node remove demo demo-general-1".
func (p *Plan) Heading() string { return heading(p.Verb, p.Title, p.Cluster) }

// Heading returns the run's title with its cluster, in the order of the command line: "node remove demo demo-general-1".
func (r *RunRecord) Heading() string { return heading(r.Verb, r.Title, r.Cluster) }

// heading inserts the cluster after the verb. Runs of older versions have no title.
func heading(verb, title, cluster string) string {
	title = cmp.Or(title, verb)
	args, ok := strings.CutPrefix(title, verb)
	if !ok {
		return title + " " + cluster
	}
	return verb + " " + cluster + args
}
