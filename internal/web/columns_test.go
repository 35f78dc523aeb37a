package web

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// headForm matches the head of a sortable column.
var headForm = regexp.MustCompile(`<th( aria-sort="(ascending|descending)")?><a href="([^"]*)">([^<]*)</a></th>`)

// sorts clicks on a column's head, and returns the address and the content of the resulting page, and the column's aria-sort.
func (s *site) sorts(at, column string) (to, as string, page answer) {
	s.t.Helper()
	find := func(at string) (href, as string, page answer) {
		page = s.ask("GET", at, s.admin, nil)
		for _, h := range headForm.FindAllStringSubmatch(page.body, -1) {
			if h[4] == column {
				return html.UnescapeString(h[3]), h[2], page
			}
		}
		s.t.Fatalf("%s has no column %s to sort by: %d %s", at, column, page.code, page.body)
		return "", "", page
	}
	to, _, _ = find(at)
	_, as, page = find(to)
	return to, as, page
}

// inOrder returns the texts of a page that a regular expression matches.
func inOrder(page answer, form string) (all []string) {
	for _, m := range regexp.MustCompile(form).FindAllStringSubmatch(page.body, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestListsAreSortedBothWays: a click on a column's head sorts by it, another click reverses the order; filters stay, and the first page is shown.
func TestListsAreSortedBothWays(t *testing.T) {
	s := newSite(t)
	for n := range 3 {
		uuid := s.discover(n)
		testkit.Value(s.pages.c.Machines.Rename(t.Context(), uuid, fmt.Sprint("bay-", n)))(t)
		testkit.Value(s.pages.c.Machines.Approve(t.Context(), s.discover(n+10), "", "ada"))(t)
	}
	for _, c := range []store.Cluster{{Name: "quay", Provider: "local", Facts: store.Facts{{Kind: "bundle"}: "v1.36.10 0123abcd"}}, {Name: "harbour", Provider: "metal", Facts: store.Facts{{Kind: "bundle"}: "v1.36.9 0123abcd"}}, {Name: "lake", Provider: "hosts"}} {
		c.Document = []byte("kind: Cluster")
		made := testkit.Value(s.store.CreateCluster(t.Context(), c))(t)
		if c.Name == "harbour" {
			testkit.Must(t, s.ran(made.ID))
		}
	}
	p := &plan.Plan{Verb: "update", Cluster: "harbour", Steps: []*plan.Step{{ID: "a", Action: plan.Change, Subject: "a", Title: "change a", Reason: "it is wanted", Run: func(context.Context, plan.Progress) error { return nil }}}}
	testkit.Value(plan.Execute(t.Context(), p, plan.Options{Journal: s.store.Journal(testkit.Value(s.store.Cluster(t.Context(), "harbour"))(t).ID)}))(t)
	for i, who := range []string{"ann", "bob"} {
		testkit.Must(t, s.store.Note(t.Context(), store.AuditEntry{At: time.Now().Add(time.Duration(i) * time.Second), Who: who, Action: "looked"}))
	}
	quay := testkit.Value(s.store.Cluster(t.Context(), "quay"))(t)
	s.saw(quay.ID, &report.Status{Name: "quay", State: report.Unhealthy, Cause: "the API does not answer: Unauthorized", API: "Unauthorized"})
	const row = `<a href="/ui/(?:machines/[^"]*|clusters/[^"]*|runs/[^"]*)">([a-z0-9-]+)</a>`
	for _, c := range []struct {
		page, column, form, as string
		want                   []string
	}{
		{"/ui/machines?approval=pending&page=1", "Machine", row, "descending", []string{"bay-2", "bay-1", "bay-0"}},
		{"/ui/machines?approval=pending", "Last seen", row, "descending", []string{"bay-2", "bay-1", "bay-0"}},
		{"/ui/clusters", "Cluster", row, "descending", []string{"quay", "lake", "harbour", "update"}},
		{"/ui/clusters", "Kubernetes", row, "ascending", []string{"lake", "harbour", "update", "quay"}},
		{"/ui/clusters", "State", row, "ascending", []string{"quay", "harbour", "update", "lake"}},
		{"/ui/clusters", "Last run", row, "descending", []string{"harbour", "update", "lake", "quay"}},
		{"/ui/clusters/harbour/runs?look=yes", "Started", `<a href="/ui/runs/[^"]*">(apply|update)</a>`, "ascending", []string{"apply", "update"}},
		{"/ui/clusters/harbour/runs", "Outcome", `<a href="/ui/runs/[^"]*">(apply|update)</a>`, "ascending", []string{"apply", "update"}},
		{"/ui/audit?text=looked", "When", `data-th="Who">([a-z]+)<`, "ascending", []string{"ann", "bob"}},
	} {
		to, as, page := s.sorts(c.page, c.column)
		got := inOrder(page, c.form)
		for name, query := range testkit.Value(url.Parse(c.page))(t).Query() {
			if kept := testkit.Value(url.Parse(to))(t).Query().Get(name); (kept == query[0]) == (name == "page" || name == "look") {
				t.Errorf("%s by %s leads to %s", c.page, c.column, to)
			}
		}
		if as != c.as || !cmp.Equal(got, c.want) {
			t.Errorf("%s is sorted by %s as %v, %s, want %v, %s", to, c.column, got, as, c.want, c.as)
		}
		if strings.Count(page.body, " aria-sort=") != 1 {
			t.Errorf("%s says of %d columns that it is sorted by them", to, strings.Count(page.body, " aria-sort="))
		}
		_, other, page := s.sorts(to, c.column)
		if back := inOrder(page, c.form); other == as || len(got) != len(back) || c.form != row && !cmp.Equal(reversed(got), back) || got[0] == back[0] {
			t.Errorf("the second click on %s of %s sorts %v, %s", c.column, c.page, back, other)
		}
	}
	if a := s.ask("GET", "/ui/machines?order=-seen&text=bay", s.admin, nil); !strings.Contains(a.body, "naupegos machine list --match bay --sort=-seen") || !strings.Contains(a.body, `type="hidden" name="order" value="-seen"`) {
		t.Errorf("the order is not kept, or the command lacks it: %s", a.body)
	}
	for _, nonsense := range []string{"-", "--seen", "disks", "-disks"} {
		if a := s.ask("GET", "/ui/machines?order="+nonsense, s.admin, nil); !strings.Contains(a.body, `<th aria-sort="ascending"><a href="/ui/machines?order=-name">Machine</a>`) {
			t.Errorf("sorted by %q: %d %s", nonsense, a.code, a.body)
		}
	}
}

func reversed(all []string) []string {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

// TestArrange: pools are sorted by their numbers, and equal rows keep their order.
func TestArrange(t *testing.T) {
	for order, want := range map[string]string{"pool": "abc", "-pool": "cba", "machines": "bac", "-machines": "acb", "failed": "abc", "none": "cab", "": "cab"} {
		rows := []poolRow{{Pool: "c", Total: 1}, {Pool: "a", Total: 1}, {Pool: "b", Total: 10}}
		switch order {
		case "machines", "-machines", "failed":
			arrange(rows, "pool", poolColumns())
		}
		arrange(rows, order, poolColumns())
		if got := rows[0].Pool + rows[1].Pool + rows[2].Pool; got != want {
			t.Errorf("by %q: %s, want %s", order, got, want)
		}
	}
}

func TestByNumbers(t *testing.T) {
	all := []string{"v1.37.2", "", "v1.36.10", "v1.36.9", "v1.37.2-rc.1"}
	slices.SortFunc(all, byNumbers)
	if want := []string{"", "v1.36.9", "v1.36.10", "v1.37.2", "v1.37.2-rc.1"}; !cmp.Equal(all, want) {
		t.Errorf("sorted are %v", all)
	}
}
