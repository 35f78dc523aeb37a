package watch

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// stateColor returns the colour of a state, or of a word that names one.
func stateColor(word string) string {
	switch {
	case word == string(report.Healthy), word == "running", word == "up to date", strings.HasPrefix(word, "Ready"), word == "leader", word == "voter":
		return green
	case word == string(report.Drifted), word == "learner", word == "unwanted", word == "to be replaced", word == "unknown", strings.HasSuffix(word, " change"), strings.HasSuffix(word, " changes"):
		return yellow
	case word == "", word == "-":
		return ""
	}
	return red
}

// Status writes a cluster's status, beginning with its state, the cause and the command that helps.
func (s Screen) Status(w io.Writer, st *report.Status, now time.Time) error {
	if err := s.summary(w, st); err != nil {
		return err
	}
	facts := []fact{{"endpoint", output.Dash(st.Endpoint)}, {"API", output.Dash(st.API)}, {"etcd", output.Dash(st.Etcd)}, {"rotation", st.Rotation}, {"reset", st.Reset}, {"upgrade", st.Upgrade}}
	for _, tried := range st.Repairs {
		facts = append(facts, fact{"repair", tried})
	}
	facts = append(facts, fact{"bundle", st.BundleNote})
	if b := st.Backups; b != nil {
		facts = append(facts, fact{"backup", backupWords(b, st.Name, now)})
		if b.Scheduled != nil {
			facts = append(facts, fact{"schedule", scheduleWords(b.Scheduled, st.Name, now)})
		}
	}
	if !st.Expires.IsZero() {
		facts = append(facts, fact{"certificates", fmt.Sprintf("the first expires %s (%s)", st.Expires.Format(time.DateOnly), st.ExpiresOf)})
	}
	if err := s.facts(w, "  ", facts); err != nil {
		return err
	}
	fmt.Fprintln(w)
	columns := []column{{head: "MACHINE"}, {head: "ROLE", keep: 3}, {head: "ADDRESS", keep: 2}, {head: "STATE", tint: stateColor}, {head: "CONFIGURATION", keep: 5, tint: stateColor},
		{head: "NODE", tint: stateColor}, {head: "VERSION", keep: 1}, {head: "ETCD", keep: 4, tint: stateColor}}
	var long output.Footnotes
	rows := [][]string{}
	for _, m := range st.Machines {
		cell := func(text string) string { return long.Cell(m.Name, text) }
		rows = append(rows, []string{m.Name, m.Role, m.Address, cell(m.State), cell(m.Config), cell(m.Node), cell(m.Version), cell(m.Etcd)})
	}
	if err := s.table(w, columns, rows); err != nil {
		return err
	}
	return long.Write(w)
}

// summary writes the first line, and a line for each further cause.
func (s Screen) summary(w io.Writer, st *report.Status) error {
	var b strings.Builder
	if err := s.paragraph(&b, "", "  ", words.Line(st.Summary())); err != nil {
		return err
	}
	state := string(st.StateWord())
	if _, err := io.WriteString(w, strings.Replace(b.String(), "is "+state, "is "+s.paint(stateColor(state), state), 1)); err != nil {
		return err
	}
	for _, c := range st.More() {
		mark := map[report.State]string{report.Unhealthy: "! ", report.Drifted: "~ "}[c.State]
		if mark == "" {
			mark = "i "
		}
		if err := s.paragraph(w, "  "+s.paint(stateColor(string(c.State)), mark), "    ", words.Line(c.String())); err != nil {
			return err
		}
	}
	return nil
}

// Clusters writes a list of clusters.
func (s Screen) Clusters(w io.Writer, list []operate.Row) error {
	columns := []column{{head: "NAME"}, {head: "PROVIDER", keep: 3}, {head: "KUBERNETES", keep: 5}, {head: "STATE", tint: stateColor}, {head: "CAUSE", keep: 6}, {head: "CREATED", keep: 2}, {head: "ID", keep: 1}, {head: "IN PROGRESS", keep: 4}}
	rows := [][]string{}
	for _, r := range list {
		rows = append(rows, []string{r.Name, r.Provider, r.Kubernetes, r.StateOrHealth(), r.Cause, r.Created.Local().Format(time.DateTime), r.ID, r.Lease})
	}
	return s.table(w, columns, rows)
}
