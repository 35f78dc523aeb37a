package web

import (
	"net/http"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
)

const upgrade = "upgrade"

// field is a hidden field of a form; it carries part of a request from page to page.
type field struct{ Name, Value string }

// askedOf parses a form into a request. A document must be of the cluster in the path.
func askedOf(r *http.Request) (operate.Asked, error) {
	name := r.PathValue("name")
	switch verb := r.PostFormValue("verb"); verb {
	case upgrade:
		u := operate.Upgrade{Finish: r.PostFormValue("way") == "finish", Back: r.PostFormValue("way") == "back"}
		for _, f := range []struct {
			name string
			to   *string
		}{{"to", &u.To}, {"pool", &u.Pool}, {"pause-after", &u.PauseAfter}} {
			*f.to = strings.TrimSpace(r.PostFormValue(f.name))
		}
		return operate.Asked{Verb: upgrade, Cluster: name, Upgrade: &u}, u.Check()
	case "", operate.Apply:
	default:
		return askedBy(r, verb)
	}
	if _, given := r.PostForm["document"]; !given { // the stored document is applied again
		return operate.Asked{Verb: operate.Apply, Cluster: name}, nil
	}
	a := operate.Asked{Verb: operate.Apply, From: "the document of this page", Document: typed(r)}
	if strings.TrimSpace(a.Document) == "" {
		return a, fail.New(fail.Invalid, "document: it is empty")
	}
	of, err := a.Name()
	if err == nil && of != name {
		err = fail.New(fail.Invalid, "the document is of cluster %s, and the page of %s", of, name)
	}
	return a, err
}

// fieldsOf returns the hidden fields of a form that repeats a request.
func fieldsOf(a operate.Asked) []field {
	all := []field{{"verb", a.Verb}}
	if a.Document != "" {
		all = append(all, field{"document", a.Document})
	}
	if u := a.Upgrade; u != nil {
		way := ""
		switch {
		case u.Finish:
			way = "finish"
		case u.Back:
			way = "back"
		}
		return append(all, field{"way", way}, field{"to", u.To}, field{"pool", u.Pool}, field{"pause-after", u.PauseAfter})
	}
	if a.Verb != operate.Apply {
		all = append(all, fieldsBy(&a)...)
	}
	return all
}

// asksHere reports whether these pages can plan a request.
func asksHere(a operate.Asked) bool {
	_, known := forms()[a.Verb]
	return known && a.Verb != operate.Destroy || a.Verb == operate.Apply || a.Verb == upgrade
}

// commandsOf returns the command lines that plan and execute a request.
func commandsOf(name string, a operate.Asked) string {
	u := a.Upgrade
	if _, known := forms()[a.Verb]; known {
		return commandBy(name, &a)
	}
	if u == nil {
		if a.Document == "" {
			return "naupegos document " + quote(name) + " > FILE\nnaupegos plan -f FILE\nnaupegos apply -f FILE"
		}
		return "naupegos plan -f FILE\nnaupegos apply -f FILE"
	}
	line := "naupegos upgrade " + quote(name)
	for _, f := range []struct{ flag, value string }{{"--to", u.To}, {"--pool", u.Pool}, {"--pause-after", u.PauseAfter}} {
		if f.value != "" {
			line += " " + f.flag + " " + quote(f.value)
		}
	}
	if u.Finish {
		line += " --finish"
	}
	if u.Back {
		line += " --back"
	}
	return line + " --dry-run\n" + line
}

// again is a button that plans the rest of an earlier plan, and the command that carries it out.
type again struct {
	Cluster, Text, Command string
	Fields                 []field
}

// goOn returns what continues a paused cluster. That is an apply, also after an upgrade: upgrade --finish is for one that waits between two hops.
func goOn(cluster string) *again {
	return &again{cluster, "Plan the rest after the pause", "naupegos apply -f FILE", fieldsOf(operate.Asked{Verb: operate.Apply, Cluster: cluster})}
}

// pauseOf returns the run after which a cluster is paused, without its steps, given the cluster's runs, the newest first; nil if it is not paused, or was
// continued. Runs that only look at a cluster or back it up do not count as continuing it.
func pauseOf(runs []plan.RunRecord) *plan.RunRecord {
	for i := range runs {
		verb, _, _ := strings.Cut(runs[i].Verb, " ")
		switch {
		case verb == "backup" || verb == "test":
			continue
		case runs[i].Outcome == plan.OutcomeSucceeded && operate.PausedAfter(&runs[i]) != "":
			run := runs[i]
			run.Steps = nil
			return &run
		}
		return nil
	}
	return nil
}
