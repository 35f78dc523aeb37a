package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// answer is an answer of Prometheus' API to a query over a range.
type answer struct {
	Status, Error string
	Data          struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Values json.RawMessage // pairs of a time and a value
		}
	}
}

// read returns the series in an answer. A program other than Prometheus may have written it.
func (s *source) read(q Query, a *kube.Answer) (series []Series, more bool, err error) {
	kind, _, _ := mime.ParseMediaType(a.Type)
	var got answer
	if kind != "application/json" || json.Unmarshal(a.Body, &got) != nil {
		return nil, false, fail.New(fail.NotReady, "pod %s does not answer as Prometheus does: status %d, %q", s.pod, a.Code, words.Clip(a.Type+" "+string(a.Body[:min(len(a.Body), 200)]), 100)).
			At(s.c.Server()).Do("look at its log: kubectl logs -n %s %s", s.at.Namespace, s.pod)
	}
	if a.Code != http.StatusOK || got.Status != "success" {
		return nil, false, fmt.Errorf("pod %s: %s: %w", s.pod, words.Clip(got.Error, 200), errQuery)
	}
	if got.Data.ResultType != "matrix" {
		return nil, false, fmt.Errorf("pod %s answers with %q: %w", s.pod, words.Clip(got.Data.ResultType, 20), errQuery)
	}
	more = len(got.Data.Result) > maxSeries
	seen := map[string]bool{}
	for _, r := range got.Data.Result[:min(len(got.Data.Result), maxSeries)] {
		name := words.Clip(r.Metric[q.Label], maxName)
		if name == "" || seen[name] {
			continue
		}
		values, err := s.values(r.Values)
		if err != nil {
			return nil, false, fmt.Errorf("pod %s answers with values that can't be read (%w): %w", s.pod, err, errQuery)
		}
		if values == nil { // none is a number
			continue
		}
		seen[name] = true
		series = append(series, Series{name, values})
	}
	slices.SortFunc(series, func(a, b Series) int { return natural(a.Name, b.Name) })
	if series == nil {
		series = []Series{}
	}
	return series, more, nil
}

// values returns one value for each step; nil if there is none. Values that are not numbers, such as 0/0, are unknown.
func (s *source) values(raw json.RawMessage) ([]*float64, error) {
	if n := bytes.Count(raw, []byte("[")); n > points+2 {
		return nil, fmt.Errorf("%d of them", n-1)
	}
	var pairs [][2]json.RawMessage
	if err := json.Unmarshal(raw, &pairs); err != nil {
		return nil, err
	}
	out, known := make([]*float64, points+1), false
	for _, p := range pairs {
		at, err := strconv.ParseFloat(string(p[0]), 64)
		if err != nil {
			return nil, err
		}
		text, err := strconv.Unquote(string(p[1]))
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		i := math.Round((at - float64(s.from.Unix())) / s.r.Step().Seconds())
		if i < 0 || i > points || math.IsNaN(i) || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		v = short(v)
		out[int(i)], known = &v, true
	}
	if !known {
		return nil, nil
	}
	return out, nil
}

// short rounds to five digits: charts need no more.
func short(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil { // never: the text was formatted from a number
		return v
	}
	return r
}

// natural compares names so that machine-10 comes after machine-9.
func natural(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if x == y && len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// Last returns the newest value of a series that is not older than three steps, and reports whether there is one.
func (s Series) Last() (float64, bool) {
	for i := len(s.Values) - 1; i >= max(0, len(s.Values)-3); i-- {
		if s.Values[i] != nil {
			return *s.Values[i], true
		}
	}
	return 0, false
}

// Bounds returns the least and the greatest known value.
func (s Series) Bounds() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, v := range s.Values {
		if v != nil {
			least, most = min(least, *v), max(most, *v)
		}
	}
	return least, most
}

// Time returns the time of a value.
func (f *Figures) Time(i int) time.Time { return f.From.Add(time.Duration(i*f.Step) * time.Second) }
