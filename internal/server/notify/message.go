package notify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// The events that webhooks announce.
const (
	Failed      = "failed"      // a job, or a command on the store, failed
	Stopped     = "stopped"     // it stopped in the middle; the same command continues it
	Unattended  = "unattended"  // an unattended task fails again and again
	Health      = "health"      // a cluster's state changed
	Backup      = "backup"      // a backup is overdue, or none was rehearsed for long
	Certificate = "certificate" // a certificate expires soon
	Machines    = "machines"    // physical machines wait for approval
	Store       = "store"       // the store or the audit log can't be written
)

// Events returns the events that a webhook may choose from.
func Events() []string {
	return []string{Failed, Stopped, Unattended, Health, Backup, Certificate, Machines, Store}
}

// ofServer are the events that are about no cluster.
var ofServer = []string{Machines, Store}

// The states of events other than health, whose states are those of clusters.
const (
	open = "open"
	over = "over"
)

// Message is one announcement: the body of a request to a webhook of the format json.
type Message struct {
	Version int       `json:"version"`           // 1; grows when a key is renamed or gets another meaning
	Event   string    `json:"event"`             // failed, stopped, unattended, health, backup, certificate, machines, store; several: see events; test
	State   string    `json:"state,omitempty"`   // of health: healthy, drifted, unhealthy or unknown; else open, or over once it no longer needs a person
	Cluster string    `json:"cluster,omitempty"` // the cluster's name
	Time    time.Time `json:"time"`
	Summary string    `json:"summary"`          // one line
	Hint    string    `json:"hint,omitempty"`   // what to do, often a command
	Link    string    `json:"link,omitempty"`   // to the server's pages, with --oidc-pages
	Events  []Message `json:"events,omitempty"` // of the event several: at most 10 messages
	More    int       `json:"more,omitempty"`   // number of further messages that events leaves out
}

// Limits of a message. All of one stays far below the 28 KB that Teams takes, and each text below the 3,000 characters of a block in Slack.
const (
	mostText   = 500 // characters of a summary or a hint
	mostOfMany = 200 // the same in a message of several
	mostLines  = 10  // messages in one of several
)

// need is something of a cluster, or of the server, that may need a person, as it is now.
type need struct {
	key     string // identifies it: the cluster's ID and what it is about
	event   string
	cluster string // name; empty: the server
	state   string // a change of it is announced; empty: no person is needed
	level   int    // a state with a lower level than the announced one is not announced
	shown   string // Message.State, if it differs from open and over
	text    string
	hint    string
	path    string // of the page about it
	after   int    // looks that must find the state before it counts; 0 and 1: the first one
	mark    string // identifies the look
	calm    bool   // its end is not announced
}

// change returns the message about a need, given what was announced last. same is true if that still holds.
func (n *need) change(last announced) (m Message, same bool) {
	switch {
	case n.state == last.State, n.state != "" && n.level < last.Level:
		return m, true
	}
	m = Message{Event: n.event, State: cmp.Or(n.shown, open), Cluster: n.cluster, Summary: n.text, Hint: n.hint, Link: n.path}
	if n.state == "" {
		m.State = cmp.Or(n.shown, over)
	}
	return m, false
}

// message joins what is announced to a receiver at one time.
func message(all []Message, at time.Time, pages string) *Message {
	for i := range all {
		all[i].Time = at
		if all[i].Link != "" {
			all[i].Link = link(pages, all[i].Link)
		}
	}
	slices.SortStableFunc(all, func(a, b Message) int { return cmp.Compare(rank(&a), rank(&b)) })
	if len(all) == 1 {
		all[0].Version = 1
		return &all[0]
	}
	m := &Message{Version: 1, Event: "several", State: open, Time: at, Summary: headline(all), Link: link(pages, "/ui/"), Events: all}
	if rank(&all[0]) == len(Events()) {
		m.State = over
	}
	for i := range all {
		all[i].Summary, all[i].Hint = clip(all[i].Summary, mostOfMany), clip(all[i].Hint, mostOfMany)
	}
	if len(all) > mostLines {
		m.Events, m.More = all[:mostLines], len(all)-mostLines
	}
	return m
}

func link(pages, path string) string {
	if pages == "" {
		return ""
	}
	return strings.TrimSuffix(pages, "/") + path
}

// rank sorts messages: the store first, what is over last.
func rank(m *Message) int {
	if m.State == over || m.State == "healthy" {
		return len(Events())
	}
	return slices.Index([]string{Store, Health, Failed, Stopped, Certificate, Backup, Unattended, Machines}, m.Event)
}

// headline says how many messages there are, and of how many clusters.
func headline(all []Message) string {
	clusters, needed := map[string]bool{}, 0
	for i := range all {
		if all[i].Cluster != "" {
			clusters[all[i].Cluster] = true
		}
		if rank(&all[i]) < len(Events()) {
			needed++
		}
	}
	text := fmt.Sprintf("%s, %d of them need a person", words.Count(len(all), "change", "changes"), needed)
	if len(clusters) > 1 {
		text = fmt.Sprintf("%d changes in %d clusters, %d of them need a person", len(all), len(clusters), needed)
	}
	return text
}

// line makes foreign text fit for a message: one line without control characters, clipped.
func line(text string) string {
	return clip(words.Line(strings.ToValidUTF8(clip(text, 4*mostText), "\uFFFD")), mostText)
}

// clip shortens a text to so many characters.
func clip(text string, most int) string {
	n, end := 0, 0
	for i := range text {
		if n++; n == most {
			end = i // of the last character that stays beside the ellipsis
		}
		if n > most {
			return text[:end] + "…"
		}
	}
	return text
}

// pathless hides the absolute paths in a text whose error is not known any more.
func pathless(text string) string { return fail.HidePaths(text, paths(text)...) }

// paths returns what looks like absolute paths in a text. The paths of URLs do not.
func paths(text string) (all []string) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`:;,()<>=[]{}|", r) }) {
		word = strings.TrimPrefix(word, "//") // unix:///run has one of its own, https://host has none
		if strings.HasPrefix(word, "/") && len(word) > 1 {
			all = append(all, word)
		}
	}
	return all
}

// command returns a remedy without the place of a document that an operator's host has.
func command(remedy string) string {
	for _, p := range paths(remedy) {
		remedy = strings.ReplaceAll(remedy, p, "FILE")
	}
	return remedy
}
