package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// format is how a kind of receiver takes messages.
type format struct {
	// render returns the body of a request.
	render func(m *Message) any
	// judge returns an error if an answer with a status of success tells that the message was not taken.
	judge func(body string, html bool) error
}

var formats = map[string]format{
	"slack": {slack, judgeSlack},
	"teams": {teams, judgeTeams},
	"json":  {func(m *Message) any { return m }, func(string, bool) error { return nil }},
}

// marks begin a line in chats.
var marks = map[string]string{"unhealthy": "🔴", "unknown": "🔴", "drifted": "🟡", "healthy": "🟢", open: "🟡", over: "🟢"}

// lines returns a message as lines for chats: what happened, then what to do. Lines are foreign text.
func (m *Message) lines() (summary string, more []string) {
	summary = mark(m) + " " + m.Summary
	for i := range m.Events {
		e := &m.Events[i]
		text := mark(e) + " " + e.Summary
		if e.Hint != "" {
			text += " → " + e.Hint
		}
		more = append(more, text)
	}
	if m.More > 0 {
		more = append(more, fmt.Sprintf("… and %d more", m.More))
	}
	if m.Hint != "" {
		more = append(more, "→ "+m.Hint)
	}
	return summary, more
}

func mark(m *Message) string {
	if m.Event == Failed || m.Event == Store && m.State == open {
		return "🔴"
	}
	return marks[m.State]
}

// escapeSlack escapes what begins links and calls in Slack's texts, such as <!channel>. Invisible spaces divide what Mattermost obeys in the same
// text: @channel, and [text](link).
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b", "](", "]\u200b(")

// slack returns a message for an incoming webhook of Slack. Blocks of plain text show foreign text as it is; the field text is for notifications, and
// for Mattermost and Rocket.Chat, which know no blocks.
func slack(m *Message) any {
	type text struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Emoji *bool  `json:"emoji,omitempty"`
	}
	type block struct {
		Type string `json:"type"`
		Text text   `json:"text"`
	}
	no := false
	plain := func(t string) block {
		return block{"section", text{"plain_text", clip(t, 3000), &no}}
	}
	summary, more := m.lines()
	all, blocks := summary, []block{plain(summary)}
	for _, l := range more {
		all, blocks = all+"\n"+l, append(blocks, plain(l))
	}
	all = escapeSlack.Replace(all)
	if m.Link != "" {
		to := "<" + strings.NewReplacer("<", "%3C", ">", "%3E", "|", "%7C", "&", "&amp;").Replace(m.Link) + "|Open>"
		all, blocks = all+"\n"+to, append(blocks, block{"section", text{Type: "mrkdwn", Text: to}})
	}
	return map[string]any{"text": all, "blocks": blocks, "unfurl_links": false, "unfurl_media": false}
}

// tameCard keeps Adaptive Cards from replacing foreign text: {{DATE(…)}} and ${…}.
var tameCard = strings.NewReplacer("{{", "{\u200b{", "${", "$\u200b{")

// teams returns a message for a webhook of a workflow in Microsoft Teams: an Adaptive Card. Its text runs know no Markdown.
func teams(m *Message) any {
	type run struct {
		Type   string `json:"type"`
		Text   string `json:"text"`
		Weight string `json:"weight,omitempty"`
	}
	type block struct {
		Type    string `json:"type"`
		Inlines []run  `json:"inlines"`
	}
	summary, more := m.lines()
	body := []block{{"RichTextBlock", []run{{"TextRun", tameCard.Replace(summary), "Bolder"}}}}
	for _, l := range more {
		body = append(body, block{"RichTextBlock", []run{{"TextRun", tameCard.Replace(l), ""}}})
	}
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": body, "fallbackText": tameCard.Replace(summary), "msteams": map[string]string{"width": "Full"},
	}
	if m.Link != "" {
		card["actions"] = []any{map[string]string{"type": "Action.OpenUrl", "title": "Open", "url": m.Link}}
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card,
	}}}
}

// encode returns the body of a request.
func (s *sealed) encode(m *Message) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it would write \u003c for each of Slack's characters
	if err := e.Encode(formats[s.Format].render(m)); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode a message")
	}
	return b.Bytes(), nil
}

// judgeSlack knows that Slack answers "ok", and that others answer with JSON.
func judgeSlack(body string, html bool) error {
	var is struct {
		OK      *bool  `json:"ok"`
		Success *bool  `json:"success"`
		Result  string `json:"result"`
	}
	switch parsed := json.Unmarshal([]byte(body), &is) == nil; {
	case body == "" || body == "ok":
		return nil
	case strings.Contains(body, "rate_limited") || strings.Contains(body, "ratelimited"):
		return fail.New(fail.Unreachable, "the receiver limits its messages")
	case html || !parsed:
		return fail.New(fail.Refused, "the receiver does not answer as a webhook of Slack").Do("check that the URL is that of an incoming webhook")
	case is.OK != nil && !*is.OK || is.Success != nil && !*is.Success || is.Result == "error":
		return fail.New(fail.Refused, "the receiver did not take the message")
	}
	return nil
}

// delivery matches the text with which Teams answers 200 although it did not post a message.
var delivery = regexp.MustCompile(`(?i)webhook message delivery failed(?:.*?http error (\d{3}))?`)

// judgeTeams knows that workflows answer 202 without a body, unless they have an answer of their own.
func judgeTeams(body string, html bool) error {
	if found := delivery.FindStringSubmatch(body); found != nil {
		if found[1] == "429" || strings.HasPrefix(found[1], "5") {
			return fail.New(fail.Unreachable, "Teams did not post the message")
		}
		return fail.New(fail.Refused, "Teams did not post the message")
	}
	if html {
		return fail.New(fail.Refused, "the receiver does not answer as a workflow of Teams").Do("check that the URL is that of a workflow with the trigger When a Teams webhook request is received")
	}
	return nil
}

// retryAfter reads the header of that name: seconds, or a date, by the receiver's own clock if it tells its time. 0: there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if at, err := http.ParseTime(text); err == nil {
		if there, err := http.ParseTime(h.Get("Date")); err == nil {
			now = there
		}
		return min(max(at.Sub(now), 0), longest)
	}
	var seconds float64
	if n, err := fmt.Sscanf(text, "%g", &seconds); n != 1 || err != nil || !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}
